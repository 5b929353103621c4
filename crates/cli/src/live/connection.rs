//! From a kubeconfig to a client.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use super::causes;

/// How long the API server may take to be there at all.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// How long a connection may take to be made. Longer, so that at the start there is one reason and not either of two.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// Longer than a watch is silent: its connection is made anew before; see [`super::watch`].
const READ_LIMIT: Duration = Duration::from_secs(45);

/// Which cluster.
#[derive(Debug, Clone, Copy, Default)]
pub struct Connection<'a> {
    /// The kubeconfig; none for `$KUBECONFIG`, `~/.kube/config`, or the account of the pod that this runs in.
    pub kubeconfig: Option<&'a Path>,
    /// A context in it; none for its current one.
    pub context: Option<&'a str>,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig cannot be read, or does not say how to connect.
    #[error("kubeconfig {}: {reason}", .file.as_ref().map_or("(default)".into(), |file| file.display().to_string()))]
    Kubeconfig {
        /// The file that was named.
        file: Option<PathBuf>,
        /// What is wrong with it.
        reason: String,
    },
    /// The API server does not answer.
    #[error("the API server at {url} does not answer: {reason}")]
    Unreachable {
        /// Its address.
        url: String,
        /// What happened instead.
        reason: String,
    },
    /// The API server answers, and does not know who is asking.
    #[error("the API server at {url} rejected the credentials in the kubeconfig: {reason}")]
    Refused {
        /// Its address.
        url: String,
        /// Its words.
        reason: String,
    },
    /// No threads could be started.
    #[error("the client cannot be started: {0}")]
    Start(#[from] std::io::Error),
}

/// The threads that keep the watches going.
pub(super) fn runtime() -> Result<Runtime, ConnectError> {
    Ok(Builder::new_multi_thread().worker_threads(2).thread_name("cluster").enable_all().build()?)
}

impl Connection<'_> {
    /// The address of the API server, and a client that got an answer from it.
    pub(super) async fn open(&self) -> Result<(String, kube::Client), ConnectError> {
        let mut config = self.config().await?;
        (config.connect_timeout, config.read_timeout) = (Some(CONNECT_LIMIT), Some(READ_LIMIT));
        // kube would try again for minutes, and a watch has no deadline. The next look-up is the next try.
        config.default_retry = false;
        let url = config.cluster_url.to_string();
        let unreachable = |reason: String| ConnectError::Unreachable { url: url.clone(), reason };
        let client = kube::Client::try_from(config).map_err(|error| unreachable(causes(&error)))?;
        match timeout(ANSWER_LIMIT, client.apiserver_version()).await {
            Ok(Ok(_)) => Ok((url, client)),
            Ok(Err(kube::Error::Api(status))) if matches!(status.code, 401 | 403) => {
                Err(ConnectError::Refused { url, reason: status.message })
            }
            Ok(Err(error)) => Err(unreachable(causes(&error))),
            Err(_) => Err(unreachable(format!("no response within {} s", ANSWER_LIMIT.as_secs()))),
        }
    }

    async fn config(&self) -> Result<kube::Config, ConnectError> {
        // The first line of an error: others quote the file, and there are keys in it.
        let fail = |error: &dyn Error| ConnectError::Kubeconfig {
            file: self.kubeconfig.map(Path::to_owned),
            reason: causes(error).lines().next().unwrap_or_default().to_owned(),
        };
        let options = KubeConfigOptions { context: self.context.map(str::to_owned), ..KubeConfigOptions::default() };
        match (self.kubeconfig, self.context) {
            (Some(file), _) => {
                let kubeconfig = Kubeconfig::read_from(file).map_err(|error| fail(&error))?;
                kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|error| fail(&error))
            }
            (None, Some(_)) => kube::Config::from_kubeconfig(&options).await.map_err(|error| fail(&error)),
            (None, None) => kube::Config::infer().await.map_err(|error| fail(&error)),
        }
    }
}
