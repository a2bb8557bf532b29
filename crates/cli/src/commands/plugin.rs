//! `spoke plugin`: tests third-party plugins, and writes down what engines and plugins say.

mod target;

use std::io::Write;
use std::sync::Mutex;

use model::{Error, Ipv4Net, Result};
use serde::Serialize;

use crate::answer::{Answer, FOUND};
use crate::args::plugin::{PluginCommand, RecordArgs, ReplayArgs, TestArgs};
use crate::context::CommandContext;
use crate::output::table::Table;
use crate::output::{Output, render};
use conformance::{CniTestSpec, PluginTestSpec, Recorder, Report, Row, Verdict};

pub(crate) fn run(
    command: &PluginCommand,
    output: Output,
    context: &CommandContext,
) -> Result<Answer> {
    match command {
        PluginCommand::Test(wanted) if wanted.list => list(wanted, output),
        PluginCommand::Test(wanted) => test(wanted, output, context),
        PluginCommand::Record(wanted) => record(wanted, context),
        PluginCommand::Replay(wanted) => replay(wanted, output, context),
    }
}

#[derive(Serialize)]
struct Listed {
    case: &'static str,
    says: &'static str,
}

fn list(wanted: &TestArgs, output: Output) -> Result<Answer> {
    let cases =
        if wanted.cni.is_empty() { conformance::list_plugin() } else { conformance::list_cni() };
    let cases: Vec<Listed> = cases.into_iter().map(|(case, says)| Listed { case, says }).collect();
    let table = || {
        let mut table = Table::new(&["CASE", "CHECKS"]);
        for listed in &cases {
            table.row([listed.case.to_owned(), listed.says.to_owned()]);
        }
        table.text()
    };
    render(output, &cases, table).map(Answer::text)
}

fn test(wanted: &TestArgs, output: Output, context: &CommandContext) -> Result<Answer> {
    let report = match (wanted.cni.as_slice(), &wanted.target) {
        ([], Some(name)) => conformance::test_plugin(&spec(wanted, name, context)?)?,
        ([], None) => return Err(Error::invalid("name a socket, a .spec, or a plugin")),
        (named, _) => conformance::test_cni(&cni_test_spec(wanted, named)?)?,
    };
    let code = if report.number(Verdict::Fail) > 0 { FOUND } else { 0 };
    let text = render(output, &report, || table(&report, wanted.verbose))?;
    Ok(Answer { code, ..Answer::text(text) })
}

fn spec(wanted: &TestArgs, name: &str, context: &CommandContext) -> Result<PluginTestSpec> {
    Ok(PluginTestSpec {
        address: target::find(name, context)?,
        only: wanted.only.clone(),
        subnet: subnet(wanted)?,
        options: wanted.options.clone(),
        ipam_options: wanted.ipam_options.clone(),
        restart: wanted.restart.clone(),
        sandboxes: !wanted.no_interfaces,
        own_ipam: !wanted.no_ipam,
    })
}

fn cni_test_spec(wanted: &TestArgs, named: &[std::path::PathBuf]) -> Result<CniTestSpec> {
    let plugin = match named {
        [path] => path.clone(),
        [directory, name] => directory.join(name),
        _ => return Err(Error::invalid("--cni takes DIRECTORY/TYPE, or DIRECTORY and TYPE")),
    };
    Ok(CniTestSpec {
        plugin,
        only: wanted.only.clone(),
        subnet: subnet(wanted)?,
        config: wanted.config.clone(),
    })
}

/// A network of every case has a /24 of its own.
fn subnet(wanted: &TestArgs) -> Result<Ipv4Net> {
    if wanted.subnet.prefix_len() > 16 {
        return Err(Error::invalid("--subnet must have room for a /24 each: a /16 or larger"));
    }
    Ok(wanted.subnet.trunc())
}

fn table(report: &Report, is_verbose: bool) -> String {
    let mut table = Table::new(&["VERDICT", "CASE", "WHY"]);
    let verdict = |row: &Row| match row.verdict {
        Verdict::Pass => "ok",
        Verdict::Skipped => "skipped",
        Verdict::Warn => "warn",
        Verdict::Fail => "FAIL",
    };
    for row in &report.cases {
        table.row([verdict(row).to_owned(), row.case.clone(), row.reasons.join("; ")]);
    }
    let mut text = table.text();
    let is_shown = |row: &&Row| row.verdict == Verdict::Fail || is_verbose;
    for row in report.cases.iter().filter(is_shown) {
        text.push_str(&format!("\n{}: {}\n", row.case, row.says));
        if let Some(exchange) = &row.exchange {
            let status = exchange.status.map_or_else(|| "none".to_owned(), |code| code.to_string());
            text.push_str(&format!(
                "  asked     {} {}\n  answered  {status} {}  ({:.1} ms)\n",
                exchange.method, exchange.request, exchange.answer, exchange.ms
            ));
        }
    }
    let mut figures = Table::new(&["CALL", "COUNT", "MEDIAN ms", "LONGEST ms"]);
    for (method, figure) in &report.figures {
        let ms = |value: f64| format!("{value:.1}");
        let (median, longest) = (ms(figure.median_ms), ms(figure.longest_ms));
        figures.row([method.clone(), figure.count.to_string(), median, longest]);
    }
    let number = |verdict| report.number(verdict);
    let (pass, warn) = (number(Verdict::Pass), number(Verdict::Warn));
    let (fail, skipped) = (number(Verdict::Fail), number(Verdict::Skipped));
    text.push_str(&format!(
        "\n{}\n{pass} passed, {warn} warned, {fail} failed, {skipped} skipped\n",
        figures.text()
    ));
    text
}

fn record(wanted: &RecordArgs, context: &CommandContext) -> Result<Answer> {
    let plugin = target::find(&wanted.plugin, context)?;
    let out: Box<dyn Write + Send> = match &wanted.out {
        None => Box::new(std::io::stdout()),
        Some(path) => {
            let file = std::fs::File::options().create(true).append(true).open(path);
            let failed = |cause| Error::os(format!("writing {}", path.display()), cause);
            Box::new(file.map_err(failed)?)
        }
    };
    Recorder { plugin, out: Mutex::new(out) }.run(&wanted.socket)?;
    Ok(Answer::default())
}

fn replay(wanted: &ReplayArgs, output: Output, context: &CommandContext) -> Result<Answer> {
    if let Some(socket) = &wanted.socket {
        conformance::serve(&wanted.trace, socket)?;
        return Ok(Answer::default());
    }
    let name = wanted.plugin.as_deref().unwrap_or_default();
    let (count, differences) = conformance::against(&wanted.trace, &target::find(name, context)?)?;
    let table = || {
        let mut table = Table::new(&["LINE", "METHOD", "RECORDED", "HEARD"]);
        for found in &differences {
            let sides = [found.recorded.to_string(), found.heard.to_string()];
            let mark = if found.is_outcome { " (!)" } else { "" };
            let [recorded, heard] = sides;
            table.row([found.line.to_string(), format!("{}{mark}", found.method), recorded, heard]);
        }
        format!("{}\n{} of {count} answers differ\n", table.text(), differences.len())
    };
    let code = if differences.iter().any(|found| found.is_outcome) { FOUND } else { 0 };
    Ok(Answer { code, ..Answer::text(render(output, &differences, table)?) })
}
