//! `eval`: one admission request.

use std::process::ExitCode;

use clap::Args;
use operator_bounds::admission::AdmissionResponse;

use super::evaluation::{Evaluation, evaluate};
use super::print;

#[derive(Args)]
pub(crate) struct Eval {
    #[command(flatten)]
    evaluation: Evaluation,
    /// Output format
    #[arg(long, value_enum, default_value_t = Output::Json, value_name = "FORMAT")]
    output: Output,
}

/// How an answer is printed.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Output {
    /// One line of JSON, as kwctl prints it
    Json,
    /// For people
    Text,
}

pub(crate) fn run(arguments: &Eval) -> anyhow::Result<ExitCode> {
    let (response, _) = evaluate(&arguments.evaluation)?;
    match arguments.output {
        Output::Json => print(&serde_json::to_string(&response)?)?,
        Output::Text => print(&text(&response))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The answer as a client of the API server would print it.
fn text(response: &AdmissionResponse) -> String {
    let mut lines: Vec<String> =
        response.warnings.iter().flatten().map(|warning| format!("Warning: {warning}")).collect();
    let status = response.status.as_ref();
    match (response.allowed, status.and_then(|status| status.code)) {
        (true, _) => lines.push("admitted".to_owned()),
        (false, Some(code)) => lines.push(format!("refused ({code})")),
        (false, None) => lines.push("refused".to_owned()),
    }
    lines.extend(status.and_then(|status| status.message.clone()));
    lines.join("\n")
}
