//! `test-webhook`: the policy as a webhook, for the tests on a real API server.

use std::fs;
use std::future::Future;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::Parser;
use operator_bounds::live::Connection;
use serde::Serialize;
use test_webhook::{Listener, Policies, Tls, Webhook};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

/// Run the policy as a webhook on a free port of loopback.
///
/// POST /validate/<id> and /audit/<id> take an AdmissionReview; GET /readiness says whether the API server answers; GET
/// /caches, which objects the watches have seen. One line of JSON on standard output says where it listens once it does;
/// logs go to standard error. SIGTERM and SIGINT stop it when the running requests are answered.
#[derive(Parser)]
#[command(name = "test-webhook")]
struct Arguments {
    /// The kubeconfig of the cluster
    #[arg(long, value_name = "FILE")]
    kubeconfig: PathBuf,
    /// The policies by id, in the form of policy-server's policies.yml [default: one, `operator-bounds`]
    #[arg(long, value_name = "FILE")]
    policies: Option<PathBuf>,
    /// Where to write the CA of the certificate: the caBundle of the webhook configuration
    #[arg(long, value_name = "FILE")]
    ca_file: PathBuf,
    /// Seconds before an evaluation is ended, look-ups included
    #[arg(long, value_name = "SECONDS", default_value_t = 2)]
    evaluation_limit: u64,
    /// Bytes that a request may have
    #[arg(long, value_name = "BYTES", default_value_t = 2 * 1024 * 1024)]
    body_limit: usize,
}

/// What is printed once the webhook listens.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Ready<'a> {
    address: String,
    ca_file: &'a Path,
    policies: Vec<&'a str>,
}

fn main() -> ExitCode {
    log_to_stderr();
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let policies = match &arguments.policies {
        Some(path) => Policies::load(path)?,
        None => Policies::single()?,
    };
    let (tls, listener) = (Tls::generate()?, Listener::bind()?);
    let connection = Connection { kubeconfig: Some(&arguments.kubeconfig), context: None };
    let webhook = Webhook::new(policies, arguments.evaluation_limit, &connection)?;
    let ca_file = &arguments.ca_file;
    fs::write(ca_file, &tls.ca).with_context(|| ca_file.display().to_string())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let stop = stop()?;
        let address = format!("https://{}", listener.address());
        let ready = Ready { address, ca_file, policies: webhook.policies().ids() };
        let mut output = io::stdout().lock();
        writeln!(output, "{}", serde_json::to_string(&ready)?)?;
        output.flush()?;
        listener.serve(Arc::new(webhook), arguments.body_limit, tls, stop).await.context("serving")
    })
}

/// Done when somebody wants us to stop.
fn stop() -> io::Result<impl Future<Output = ()>> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// A line of JSON on standard output is the only thing there. What kube says of its errors, they say themselves.
fn log_to_stderr() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,kube_client=off"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .init();
}
