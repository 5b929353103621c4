//! The API server, asked over HTTP as anybody: what a client sees is looked at, warnings and codes included.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;

use anyhow::{Context, bail};
use http::{HeaderName, HeaderValue, Method, Request};
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::discovery::{Discovery, Scope};
use kube::{Client, Config};
use serde_json::{Value, json};

/// An object's place in the cluster. Cluster-scoped objects have the empty namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// `group/version`, or the version alone for the core group.
    pub api_version: String,
    /// As in a manifest.
    pub kind: String,
    /// Empty where it is in none.
    pub namespace: String,
    /// Empty for all objects of the kind.
    pub name: String,
}

impl Key {
    /// The place that an object says it has.
    #[must_use]
    pub fn of(object: &Value) -> Self {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        Key {
            api_version: text("/apiVersion"),
            kind: text("/kind"),
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name"),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.namespace.is_empty() { "" } else { "/" };
        write!(f, "{} {}{slash}{}", self.kind, self.namespace, self.name)
    }
}

/// Whom a request is sent as.
#[derive(Debug, Clone, Default)]
pub struct Sender {
    /// Its name.
    pub user: String,
    /// Besides `system:authenticated`, which the API server adds.
    pub groups: Vec<String>,
    /// Facts about the user that only the API server's configuration for these tests looks at.
    pub extra: Vec<(&'static str, String)>,
}

/// What the API server answered.
#[derive(Debug)]
pub struct Answer {
    /// Of HTTP.
    pub code: u16,
    /// An object, or a `Status`.
    pub body: Value,
    /// As a client prints them.
    pub warnings: Vec<String>,
    /// By which the request is found in the audit log.
    pub audit_id: String,
}

impl Answer {
    /// Whether it was done.
    #[must_use]
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.code)
    }

    /// Why it was not done.
    #[must_use]
    pub fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }

    /// The answer, if it is a success.
    pub fn ok(self, what: &dyn fmt::Display) -> anyhow::Result<Self> {
        if self.is_success() {
            return Ok(self);
        }
        bail!("{what}: {} {}", self.code, self.message())
    }
}

/// A client of the API server, in `system:masters` unless it sends as somebody else.
#[derive(Clone)]
pub struct Api {
    client: Client,
    server: String,
    kinds: HashMap<(String, String), Kind>,
}

#[derive(Clone)]
struct Kind {
    plural: String,
    namespaced: bool,
}

impl Api {
    /// Connects with a kubeconfig's current context, and asks which kinds there are.
    pub async fn connect(kubeconfig: &Path) -> anyhow::Result<Self> {
        Self::with_config(config(kubeconfig, None).await?).await
    }

    /// The same with another context.
    pub async fn connect_in(kubeconfig: &Path, context: &str) -> anyhow::Result<Self> {
        Self::with_config(config(kubeconfig, Some(context)).await?).await
    }

    async fn with_config(config: Config) -> anyhow::Result<Self> {
        let server = config.cluster_url.to_string();
        let mut api = Api { client: Client::try_from(config)?, server, kinds: HashMap::new() };
        api.discover().await?;
        Ok(api)
    }

    /// The same API server with an account's token in place of the administrator's certificate.
    pub async fn with_token(&self, kubeconfig: &Path, token: &str) -> anyhow::Result<Self> {
        let mut config = config(kubeconfig, None).await?;
        config.auth_info = kube::config::AuthInfo { token: Some(token.to_owned().into()), ..Default::default() };
        Ok(Api { client: Client::try_from(config)?, server: self.server.clone(), kinds: self.kinds.clone() })
    }

    /// Its address.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Asks again which kinds there are.
    pub async fn discover(&mut self) -> anyhow::Result<()> {
        let discovery = Discovery::new(self.client.clone()).run().await.context("asking for the kinds")?;
        for group in discovery.groups() {
            for version in group.versions() {
                for (resource, capabilities) in group.versioned_resources(version) {
                    let namespaced = capabilities.scope == Scope::Namespaced;
                    let kind = Kind { plural: resource.plural, namespaced };
                    self.kinds.insert((resource.api_version, resource.kind), kind);
                }
            }
        }
        Ok(())
    }

    /// Whether the server has such a kind, and if so, whether its objects are in namespaces.
    #[must_use]
    pub fn is_namespaced(&self, api_version: &str, kind: &str) -> Option<bool> {
        self.kinds.get(&(api_version.to_owned(), kind.to_owned())).map(|kind| kind.namespaced)
    }

    /// The path of all objects of the kind of this one, in its namespace.
    pub fn collection(&self, key: &Key) -> anyhow::Result<String> {
        let kind = self.kinds.get(&(key.api_version.clone(), key.kind.clone()));
        let Kind { plural, namespaced } =
            kind.with_context(|| format!("the server has no {} {}", key.api_version, key.kind))?;
        let root = if key.api_version.contains('/') { "/apis" } else { "/api" };
        let api_version = &key.api_version;
        Ok(match (*namespaced, key.namespace.as_str()) {
            (true, namespace) if !namespace.is_empty() => {
                format!("{root}/{api_version}/namespaces/{namespace}/{plural}")
            }
            _ => format!("{root}/{api_version}/{plural}"),
        })
    }

    /// The path of one object.
    pub fn path(&self, key: &Key) -> anyhow::Result<String> {
        Ok(format!("{}/{}", self.collection(key)?, key.name))
    }

    /// Sends a request as the client itself.
    pub async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> anyhow::Result<Answer> {
        self.send_as(None, method, path, body).await
    }

    /// Sends a request, as somebody else if need be.
    pub async fn send_as(
        &self,
        sender: Option<&Sender>,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Answer> {
        let content_type = match method {
            Method::PATCH if path.contains("fieldManager=") => "application/apply-patch+yaml",
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let body = body.map(Value::to_string).unwrap_or_default();
        let mut request = Request::builder().method(method).uri(path).header("Content-Type", content_type);
        for (name, value) in sender.into_iter().flat_map(impersonation) {
            request = request.header(HeaderName::try_from(name)?, HeaderValue::try_from(value)?);
        }
        let answer = self.client.send(request.body(Body::from(body.into_bytes()))?).await?;
        let (head, body) = answer.into_parts();
        let header = |name: &str| head.headers.get_all(name).into_iter().map(|value| text(value.as_bytes()));
        let warnings = header("Warning").map(|value| unquoted(&value)).collect();
        let audit_id = header("Audit-Id").next().unwrap_or_default();
        let bytes = body.collect_bytes().await?;
        let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| Value::String(text(&bytes)));
        Ok(Answer { code: head.status.as_u16(), body, warnings, audit_id })
    }

    /// One object, if it is there.
    pub async fn get(&self, key: &Key) -> anyhow::Result<Option<Value>> {
        let answer = self.send(Method::GET, &self.path(key)?, None).await?;
        if answer.code == 404 { Ok(None) } else { Ok(Some(answer.ok(key)?.body)) }
    }

    /// All objects of a kind, in one namespace or in all of them.
    pub async fn list(&self, api_version: &str, kind: &str, namespace: Option<&str>) -> anyhow::Result<Vec<Value>> {
        let key = Key {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: namespace.unwrap_or_default().to_owned(),
            name: String::new(),
        };
        let mut list = self.send(Method::GET, &self.collection(&key)?, None).await?.ok(&kind)?.body;
        Ok(list["items"].as_array_mut().map(std::mem::take).unwrap_or_default())
    }

    /// Changes an object by a merge patch; a failure is an error.
    pub async fn patch(&self, key: &Key, patch: &Value) -> anyhow::Result<Value> {
        Ok(self.send(Method::PATCH, &self.path(key)?, Some(patch)).await?.ok(key)?.body)
    }

    /// Creates an object; a failure is an error.
    pub async fn create(&self, object: &Value) -> anyhow::Result<Value> {
        let key = Key::of(object);
        Ok(self.send(Method::POST, &self.collection(&key)?, Some(object)).await?.ok(&key)?.body)
    }

    /// Writes an object over the one that is there, or creates it; a failure is an error.
    pub async fn apply(&self, object: &Value) -> anyhow::Result<Value> {
        let key = Key::of(object);
        let path = format!("{}?fieldManager=e2e&force=true", self.path(&key)?);
        Ok(self.send(Method::PATCH, &path, Some(object)).await?.ok(&key)?.body)
    }

    /// A token of a service account.
    pub async fn token(&self, namespace: &str, name: &str) -> anyhow::Result<String> {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
        let asked = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 86400}});
        let token = self.send(Method::POST, &path, Some(&asked)).await?.ok(&path)?.body;
        Ok(token["status"]["token"].as_str().unwrap_or_default().to_owned())
    }

    /// Deletes an object; it may be gone already.
    pub async fn delete(&self, key: &Key) -> anyhow::Result<Answer> {
        let answer = self.send(Method::DELETE, &self.path(key)?, None).await?;
        if answer.code == 404 { Ok(answer) } else { answer.ok(key) }
    }
}

async fn config(kubeconfig: &Path, context: Option<&str>) -> anyhow::Result<Config> {
    let read = Kubeconfig::read_from(kubeconfig).with_context(|| kubeconfig.display().to_string())?;
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    Ok(Config::from_custom_kubeconfig(read, &options).await?)
}

fn impersonation(sender: &Sender) -> Vec<(String, String)> {
    let mut headers = vec![("Impersonate-User".to_owned(), sender.user.clone())];
    headers.extend(sender.groups.iter().map(|group| ("Impersonate-Group".to_owned(), group.clone())));
    let extra = sender.extra.iter();
    headers.extend(extra.map(|(key, value)| (format!("Impersonate-Extra-{}", key.replace('/', "%2f")), value.clone())));
    headers
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The text of a `Warning` header: `299 - "the text"`.
fn unquoted(header: &str) -> String {
    let quoted = header.splitn(3, ' ').nth(2).unwrap_or(header);
    let inner = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(quoted);
    inner.replace("\\\"", "\"").replace("\\\\", "\\")
}
