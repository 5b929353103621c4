//! What `eval` and `session` have in common: a request, the settings, the cluster.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use operator_bounds::admission::{AdmissionResponse, Request};
use operator_bounds::documents::FileError;
use operator_bounds::engine::Limits;
use operator_bounds::host::Exchange;
use operator_bounds::manifests::Manifests;
use operator_bounds::policy::Policy;

use super::settings::Settings;

#[derive(Args)]
pub(crate) struct Evaluation {
    /// The admission request, or a whole AdmissionReview, as JSON; `-` for standard input
    #[arg(long, value_name = "FILE")]
    request_path: PathBuf,
    #[command(flatten)]
    settings: Settings,
    /// Cluster state: a file or directory of YAML and JSON manifests, including Lists and `.gz`
    #[arg(long, value_name = "DIR|FILE")]
    cluster: PathBuf,
    /// Run the decisions natively instead of in the embedded module
    #[arg(long, hide = true)]
    native: bool,
    /// Time limit for the evaluation in seconds; 0 for none
    #[arg(long, hide = true, value_name = "SECONDS", default_value_t = 2)]
    time_limit: u64,
}

/// The response to the request, and the look-ups it took.
pub(crate) fn evaluate(evaluation: &Evaluation) -> anyhow::Result<(AdmissionResponse, Vec<Exchange>)> {
    let request = read_request(&evaluation.request_path)?;
    let manifests = Arc::new(Manifests::load(&evaluation.cluster)?);
    let seconds = Some(evaluation.time_limit).filter(|&seconds| seconds > 0);
    let limits = Limits { seconds, ..Limits::default() };
    let policy = if evaluation.native { Policy::native()? } else { Policy::embedded(limits)? };
    let settings = evaluation.settings.read_for(&policy)?;
    let host = Arc::new(policy.host(&manifests));
    let response = policy.validate(&request.json, &settings, &host)?;
    Ok((AdmissionResponse::new(&request, response)?, host.exchanges()))
}

fn read_request(path: &Path) -> Result<Request, FileError> {
    let fail = |error: io::Error| FileError::new(path, error);
    if path.as_os_str() == "-" {
        let mut bytes = Vec::new();
        io::stdin().lock().read_to_end(&mut bytes).map_err(fail)?;
        return Request::parse(Path::new("standard input"), &bytes);
    }
    Request::parse(path, &fs::read(path).map_err(fail)?)
}
