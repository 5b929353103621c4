//! Who answers the webhooks: `test-webhook`, or the real policy-server.

use std::path::{Path, PathBuf};

use operator_bounds::host::ListResources;
use serde_json::Value;
use test_kubewarden::webhook::Endpoint;
use test_kubewarden::{Client, Mirror, Module, PolicyServer, Start, Versions};
use test_plane::api::Key;

use crate::serve::Serve;

/// A busy machine is not what is tested.
const EVALUATION_SECONDS: u32 = 20;

/// Which of the two, with its program.
pub(crate) enum Kind {
    Serve(PathBuf),
    PolicyServer { program: PathBuf, module: Module },
}

/// One that runs. It ends when this is dropped.
pub(crate) enum Host {
    Serve(Serve),
    PolicyServer { server: PolicyServer, client: Client, mirror: Mirror },
}

/// What one of its watches shows, and where the API server has the same.
pub(crate) struct Shown {
    pub(crate) place: Key,
    pub(crate) objects: Versions,
}

impl Kind {
    /// What policies are made of, for the policy server's file.
    pub(crate) fn module(&self) -> &str {
        match self {
            Kind::Serve(_) => "the one that is built in",
            Kind::PolicyServer { module, .. } => module.reference(),
        }
    }

    /// The two in words.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Kind::Serve(_) => "test-webhook",
            Kind::PolicyServer { .. } => "policy-server",
        }
    }

    /// Starts one with these policies, and waits until it is ready.
    pub(crate) async fn start(&self, kubeconfig: &Path, policies: &Value, directory: &Path) -> anyhow::Result<Host> {
        match self {
            Kind::Serve(program) => {
                Ok(Host::Serve(Serve::start(program, kubeconfig, policies, directory, EVALUATION_SECONDS).await?))
            }
            Kind::PolicyServer { program, module } => {
                let mut policies = policies.clone();
                Mirror::add_to(&mut policies, directory)?;
                let start =
                    Start { program, kubeconfig, policies: &policies, module, directory, seconds: EVALUATION_SECONDS };
                let server = PolicyServer::start(&start)?;
                let client = Client::of(server.endpoint()).await?;
                Ok(Host::PolicyServer { server, mirror: Mirror::of(client.clone()), client })
            }
        }
    }
}

impl Host {
    pub(crate) fn endpoint(&self) -> &Endpoint {
        match self {
            Host::Serve(serve) => &serve.endpoint,
            Host::PolicyServer { server, .. } => server.endpoint(),
        }
    }

    /// The answer to a request of the audit scanner.
    pub(crate) async fn audit(&self, policy: &str, request: &Value) -> anyhow::Result<Value> {
        let client = match self {
            Host::Serve(serve) => &serve.client,
            Host::PolicyServer { client, .. } => client,
        };
        client.audit(policy, request).await
    }

    /// What the watches show now that answer these queries. The command line shows all that it has.
    pub(crate) async fn shown(&self, queries: &[&ListResources]) -> anyhow::Result<Vec<Shown>> {
        let key = |api_version: &str, kind: &str, namespace: Option<&str>| Key {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: namespace.unwrap_or_default().to_owned(),
            name: String::new(),
        };
        match self {
            Host::Serve(serve) => {
                let caches = serve.caches().await?.into_iter();
                Ok(caches
                    .map(|cache| Shown {
                        place: key(&cache.api_version, &cache.kind, cache.namespace.as_deref()),
                        objects: cache.objects,
                    })
                    .collect())
            }
            Host::PolicyServer { mirror, .. } => {
                let shown = mirror.show(queries).await?.into_iter().zip(queries);
                Ok(shown
                    .map(|(objects, query)| Shown {
                        place: key(&query.api_version, &query.kind, query.namespace.as_deref()),
                        objects,
                    })
                    .collect())
            }
        }
    }
}
