//! The arguments of `spoke backup` and `spoke restore`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// The file, which is replaced; - for standard output
    pub(crate) file: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The file; - for standard input
    pub(crate) file: PathBuf,
    /// Leave what is here and differs, and restore the rest
    #[arg(long)]
    pub(crate) keep_existing: bool,
    /// Only say what would be restored
    #[arg(long)]
    pub(crate) dry_run: bool,
}
