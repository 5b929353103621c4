//! `serve`: the policy as a webhook, for development and tests.

use std::fs;
use std::future::Future;
use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use operator_bounds::documents::FileError;
use operator_bounds::live::Connection;
use operator_bounds::serve::{Listener, Policies, Tls, Webhook};
use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use super::print;
use super::settings::Settings;

#[derive(Args)]
pub(crate) struct Serve {
    /// The kubeconfig of the cluster [default: $KUBECONFIG, ~/.kube/config, or the account of the pod]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context in it [default: its current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Where to listen; port 0 for any that is free
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:8443")]
    addr: SocketAddr,
    /// The policies by id, in the form of policy-server's policies.yml [default: one, `operator-bounds`]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["settings_path", "settings_json"])]
    policies: Option<PathBuf>,
    #[command(flatten)]
    settings: Settings,
    /// The server's certificate, and those that lead from it to its CA, as PEM [default: made on the fly]
    #[arg(long, value_name = "FILE", requires = "key_file")]
    cert_file: Option<PathBuf>,
    /// The certificate's private key, as PEM
    #[arg(long, value_name = "FILE", requires = "cert_file")]
    key_file: Option<PathBuf>,
    /// Where to write the CA of the certificate made on the fly: the caBundle of the webhook configuration
    #[arg(long, value_name = "FILE", conflicts_with = "cert_file")]
    ca_file: Option<PathBuf>,
    /// Seconds before an evaluation is ended, look-ups included
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=300))]
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
    ca_file: Option<&'a Path>,
    policies: Vec<&'a str>,
}

pub(crate) fn run(arguments: &Serve) -> anyhow::Result<ExitCode> {
    log_to_stderr();
    let policies = match &arguments.policies {
        Some(path) => Policies::load(path)?,
        None => Policies::single(arguments.settings.read()?),
    };
    let tls = match (&arguments.cert_file, &arguments.key_file) {
        (Some(cert_file), Some(key_file)) => Tls::load(cert_file, key_file)?,
        _ => Tls::generate(arguments.addr.ip())?,
    };
    let listener = Listener::bind(arguments.addr)?;
    let connection = Connection { kubeconfig: arguments.kubeconfig.as_deref(), context: arguments.context.as_deref() };
    let webhook = Webhook::new(policies, arguments.evaluation_limit, &connection)?;
    if let (Some(path), Some(ca)) = (&arguments.ca_file, &tls.ca) {
        fs::write(path, ca).map_err(|error| FileError::new(path, error))?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let stop = stop()?;
        let ready = Ready {
            address: format!("https://{}", listener.address()),
            ca_file: arguments.ca_file.as_deref(),
            policies: webhook.policies().ids(),
        };
        print(&serde_json::to_string(&ready)?)?;
        listener.serve(Arc::new(webhook), arguments.body_limit, tls, stop).await.context("serving")
    })?;
    Ok(ExitCode::SUCCESS)
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

/// A line of JSON on standard output is the only thing there.
fn log_to_stderr() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .init();
}
