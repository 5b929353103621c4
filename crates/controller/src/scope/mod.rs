//! `scope`: writes what OLM v1 writes for an extension as the identity of that extension.
//!
//! A reverse proxy beside operator-controller, between it and the API server. It has no credentials: each request is
//! forwarded with those it came with, and for what belongs to an extension with `Impersonate-User` and
//! `Impersonate-Group` of that extension, so that the API server decides. [`decide`] is the core, a function without
//! side effects.

mod body;
mod decide;
mod headers;
mod listener;
mod owner;
mod path;
mod proxy;
mod refusal;
mod stream;
mod tls;
mod upstream;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use hyper::Uri;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::health::{self, Ready};
use crate::shutdown::Stop;
use decide::Rules;
use proxy::{Outcome, Proxy};
use upstream::Upstream;

/// How often the API server is asked whether it is ready.
const PROBED: Duration = Duration::from_secs(5);

/// Stand between OLM v1's operator-controller and the API server, and write what belongs to an extension as that extension
///
/// A sidecar: operator-controller reaches it by the kubeconfig in --directory. It has no credentials of its own. Every request
/// goes on with the caller's token; a write of an object that belongs to a ClusterExtension goes on as User
/// olm:clusterextension:NAME in the groups olm:clusterextensions and system:authenticated, which has the rights that you grant
/// it, and no others. What belongs to nobody, and every Helm hook, is refused.
#[derive(Debug, Args)]
pub struct Options {
    /// Where operator-controller reaches it: a loopback address
    #[arg(long, default_value = "127.0.0.1:6443", value_name = "ADDRESS:PORT", value_parser = loopback)]
    pub listen: SocketAddr,

    /// Where /metrics, /healthz and /readyz are served
    #[arg(long, default_value = "0.0.0.0:8082", value_name = "ADDRESS:PORT")]
    pub probes: SocketAddr,

    /// Where the certificate for --listen is kept, and the kubeconfig for operator-controller is written
    #[arg(long, default_value = "/run/operator-bounds", value_name = "DIRECTORY")]
    pub directory: PathBuf,

    /// The token that operator-controller uses, where it finds it: it is only named in the kubeconfig, and not read here
    #[arg(long, default_value = "/var/run/secrets/kubernetes.io/serviceaccount/token", value_name = "FILE")]
    pub token_file: PathBuf,

    /// The API server (default: the one of the pod)
    #[arg(long, value_name = "URL")]
    pub server: Option<Uri>,

    /// The certificate authority of the API server
    #[arg(long, default_value = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt", value_name = "FILE")]
    pub server_ca: PathBuf,

    /// The namespace of OLM v1, where its releases and Leases are
    #[arg(long, env = "POD_NAMESPACE", default_value = "olmv1-system", value_name = "NAME")]
    pub system_namespace: String,

    /// Act as the service account that an extension names, if it names one. Without the policy's guard this is unsafe: whoever
    /// may write ClusterExtensions could name any account of the cluster
    #[arg(long)]
    pub service_accounts: bool,

    /// Who writes CustomResourceDefinitions of extensions: OLM with its own rights, or the extension
    #[arg(long, value_enum, default_value_t = Definitions::Exempt, value_name = "RULE")]
    pub crds: Definitions,

    /// Releases in several Secrets, in which Helm hooks cannot be seen beforehand
    #[arg(long, value_enum, default_value_t = LargeReleases::Refuse, value_name = "RULE")]
    pub large_releases: LargeReleases,
}

/// Who writes definitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Definitions {
    /// OLM.
    Exempt,
    /// The extension, which needs the rights for it.
    Bounded,
}

/// What happens to releases that cannot be looked through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LargeReleases {
    /// They are refused.
    Refuse,
    /// They are written; each hook is refused when its turn comes, and what has its name and an owner is deleted by then.
    ObjectByObject,
}

fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text.parse().map_err(|error| format!("{error}"))?;
    if address.ip().is_loopback() {
        Ok(address)
    } else {
        Err("must be a loopback address, as 127.0.0.1:6443".to_owned())
    }
}

/// Runs until it is told to stop.
pub async fn run(options: Options, stop: Stop) -> anyhow::Result<()> {
    let server = options.server.map_or_else(server_of_pod, Ok)?;
    let upstream = Upstream::new(&server, &options.server_ca)?;
    let requests = Family::<Outcome, Counter>::default();
    let mut registry = Registry::with_prefix("operator_bounds_scope");
    registry.register("requests", "Requests, by what became of them", requests.clone());
    let ready = Ready::not_yet("the API server was not asked yet");
    health::serve(options.probes, registry, ready.clone()).await?;
    let listener = TcpListener::bind(options.listen).await;
    let listener = listener.with_context(|| format!("cannot listen on {}", options.listen))?;
    let address = listener.local_addr()?;
    let certificate = tls::certificate(&options.directory)?;
    tls::kubeconfig(&options.directory, address, &options.token_file)?;
    tracing::info!(%address, %server, service_accounts = options.service_accounts, "scoping what OLM writes");
    let watching = tokio::spawn(follow(upstream.clone(), ready));
    let rules = Rules {
        system_namespace: options.system_namespace,
        exempt_definitions: options.crds == Definitions::Exempt,
        large_releases: options.large_releases == LargeReleases::ObjectByObject,
    };
    let proxy = Proxy {
        upstream,
        rules,
        service_accounts: options.service_accounts,
        requests,
        stop: stop.clone(),
        writes: Semaphore::new(proxy::WRITES),
    };
    listener::serve(listener, certificate, Arc::new(proxy), stop).await;
    watching.abort();
    Ok(())
}

/// The address of the API server, from the environment that every pod has.
fn server_of_pod() -> anyhow::Result<Uri> {
    let told =
        |name: &str| std::env::var(name).with_context(|| format!("not in a pod ({name} is not set): use --server"));
    let (host, port) = (told("KUBERNETES_SERVICE_HOST")?, told("KUBERNETES_SERVICE_PORT")?);
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    format!("https://{host}:{port}").parse().context("the API server's address")
}

/// Ready while the API server is: without it nothing can be forwarded.
async fn follow(upstream: Upstream, ready: Ready) {
    loop {
        let state = upstream.ready().await;
        let reason = state.clone().err();
        if ready.set(state) {
            match reason {
                None => tracing::info!("ready: the API server is"),
                Some(reason) => tracing::warn!(reason, "not ready"),
            }
        }
        tokio::time::sleep(PROBED).await;
    }
}
