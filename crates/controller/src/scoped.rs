//! Clients that act as a service account: a short-lived token, and nothing of the controller's own credentials.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client, Config};
use tokio::sync::Mutex;

use crate::error::{Error, within};
use crate::metrics::Metrics;

/// How long to wait for an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The same for what is written as an account: admission may take its time.
const WRITE_PATIENCE: Duration = Duration::from_mins(1);
/// The shortest that the API server hands out.
const LIFETIME: Duration = Duration::from_mins(10);

/// A service account: this one, and not another that gets its name later.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Account {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// Which account of that name.
    pub uid: String,
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The clients that were made, by account. Tokens live in them and nowhere else.
pub struct ScopedClients {
    anonymous: Config,
    own: Client,
    metrics: Metrics,
    known: Mutex<HashMap<Account, Slot>>,
}

/// The client of one account. Whoever waits for a token of it keeps only those waiting who want the same.
type Slot = Arc<Mutex<Option<Known>>>;

/// A client, and when it should be replaced by one with a new token.
struct Known {
    client: Client,
    renew_at: Instant,
}

impl fmt::Debug for ScopedClients {
    /// Without the clients: a token must not get into a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopedClients").field("server", &self.anonymous.cluster_url).finish_non_exhaustive()
    }
}

impl ScopedClients {
    /// Nobody is known yet.
    #[must_use]
    pub fn new(config: &Config, own: Client, metrics: Metrics) -> Self {
        ScopedClients { anonymous: anonymous(config), own, metrics, known: Mutex::default() }
    }

    /// A client that acts as this account. The token is asked for when there is none, or when it soon ends.
    pub async fn client(&self, account: &Account) -> Result<Client, Error> {
        let slot = Arc::clone(self.known.lock().await.entry(account.clone()).or_default());
        let mut known = slot.lock().await;
        if let Some(found) = known.as_ref().filter(|found| Instant::now() < found.renew_at) {
            return Ok(found.client.clone());
        }
        let fresh = self.issue(account).await?;
        let client = fresh.client.clone();
        *known = Some(fresh);
        Ok(client)
    }

    /// Drops the clients of accounts that are gone, or are no longer the same.
    pub async fn retain(&self, exists: impl Fn(&Account) -> bool) {
        self.known.lock().await.retain(|account, _| exists(account));
    }

    /// Drops one client: the API server does not take its token any more.
    pub async fn forget(&self, account: &Account) {
        self.known.lock().await.remove(account);
    }

    async fn issue(&self, account: &Account) -> Result<Known, Error> {
        let failed = |source| Error::Token { account: account.to_string(), source: Box::new(source) };
        let spec = TokenRequestSpec {
            expiration_seconds: i64::try_from(LIFETIME.as_secs()).ok(),
            ..TokenRequestSpec::default()
        };
        let request = TokenRequest { spec, ..TokenRequest::default() };
        let accounts: Api<ServiceAccount> = Api::namespaced(self.own.clone(), &account.namespace);
        let asked = async { accounts.create_token_request(&account.name, &PostParams::default(), &request).await };
        let answer = within(PATIENCE, asked).await.map_err(failed)?;
        let status =
            answer.status.ok_or_else(|| Error::Answer { object: format!("token of {account}"), missing: "token" })?;
        let lives = Duration::try_from(status.expiration_timestamp.0.duration_since(Timestamp::now()))
            .unwrap_or(Duration::ZERO);
        let mut config = self.anonymous.clone();
        config.auth_info.token = Some(status.token.into());
        self.metrics.token_issued();
        // Renewed after four fifths, so that no step starts with a token that ends meanwhile.
        Ok(Known { client: Client::try_from(config).map_err(failed)?, renew_at: Instant::now() + lives * 4 / 5 })
    }
}

/// Where the API server is and how to know it, and nothing that says who asks: no certificate, token, command,
/// impersonation or header.
fn anonymous(config: &Config) -> Config {
    let mut copy = Config::new(config.cluster_url.clone());
    copy.root_cert.clone_from(&config.root_cert);
    copy.root_cert_file.clone_from(&config.root_cert_file);
    copy.tls_server_name.clone_from(&config.tls_server_name);
    copy.accept_invalid_certs = config.accept_invalid_certs;
    copy.proxy_url.clone_from(&config.proxy_url);
    copy.connect_timeout = config.connect_timeout.or(Some(PATIENCE));
    copy.read_timeout = Some(WRITE_PATIENCE);
    copy.write_timeout = Some(WRITE_PATIENCE);
    copy
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_anonymous_copy_carries_no_credentials() {
        let mut config = Config::new("https://api.example.com".parse().unwrap());
        config.auth_info.token = Some("secret-token".to_owned().into());
        config.auth_info.username = Some("admin".to_owned());
        config.auth_info.client_certificate_data = Some("certificate".to_owned());
        config.auth_info.impersonate = Some("root".to_owned());
        config.headers.push(("x-remote-user".parse().unwrap(), "admin".parse().unwrap()));
        let copy = anonymous(&config);
        assert_eq!(serde_json::to_value(&copy.auth_info).unwrap(), serde_json::json!({}));
        assert!(copy.headers.is_empty());
        assert_eq!(copy.cluster_url, config.cluster_url);
    }

    #[test]
    fn one_account_whose_token_does_not_come_keeps_no_other_waiting() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let config = Config::new(format!("http://{}", silent.local_addr().unwrap()).parse().unwrap());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let own = Client::try_from(config.clone()).unwrap();
            let clients = ScopedClients::new(&config, own, Metrics::default());
            let account = |name: &str| Account { namespace: "a".into(), name: name.into(), uid: String::new() };
            let (hangs, other) = (account("hangs"), account("other"));
            tokio::select! {
                biased;
                error = clients.client(&hangs) => panic!("{:?}", error.err()),
                // Locks what the first one must not hold.
                () = clients.forget(&other) => {}
            }
        });
    }
}
