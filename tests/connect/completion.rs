//! `spoke completion bash`, as bash calls it.

use crate::bed::{Bed, SPOKE};

/// What bash has after a Tab behind these words, sorted.
#[track_caller]
fn completed(bed: &Bed, words: &str) -> Vec<String> {
    let script = format!(
        "bash --norc --noprofile -c '
            source <({SPOKE} completion bash)
            [[ $(complete -p spoke) == *\"-F _spoke_with_names \"* ]] || exit 9
            COMP_WORDS=({SPOKE} {words}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
            _spoke_with_names {SPOKE} \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD-1]}}\"
            printf \"%s\\n\" \"${{COMPREPLY[@]}}\"'"
    );
    let mut shown: Vec<String> = bed.world.sh(&script).lines().map(str::to_owned).collect();
    shown.sort();
    shown
}

#[test]
fn bash_completes_names_of_networks_and_containers() {
    let bed = Bed::new(&["web", "db"]);
    bed.spoke("network connect front web");
    bed.spoke("network connect back db");
    assert_eq!(completed(&bed, "network rm \"\""), ["back", "front"]);
    assert_eq!(completed(&bed, "network rm f"), ["front"]);
    assert_eq!(completed(&bed, "limit \"\""), ["db", "web"]);
    assert_eq!(completed(&bed, "port ls --network b"), ["back"]);
    // What is no name is clap's to complete.
    assert_eq!(completed(&bed, "network ren"), ["rename"]);
    assert!(completed(&bed, "network rm --f").contains(&"--force".to_owned()));
}
