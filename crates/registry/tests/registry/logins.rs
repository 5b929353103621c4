//! Registries that want to know who comes.

use std::fs;

use tempfile::TempDir;

use crate::policies::{Saved, options, policy, program, run};
use crate::server::{Registry, Setup};

/// `publisher` with the password `correct horse`, as `htpasswd -B` writes it.
const LOGINS: &str = "publisher:$2a$05$rtHFbitkYxcromRzST1eiuTTEC8IYx.tNwfX9Mya2bbvGoHISsrNW\n";

fn guarded() -> Registry {
    Registry::with(&Setup { logins: Some(LOGINS.to_owned()), ..Setup::default() })
}

/// What `docker login` leaves behind.
fn logged_in(registry: &Registry, user: &str, password: &str) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let login = serde_json::json!({"username": user, "password": password});
    let config = serde_json::json!({"auths": {registry.address(): login}});
    fs::write(directory.path().join("config.json"), config.to_string()).unwrap();
    directory
}

#[tokio::test]
#[ignore = "needs a registry: make registry-tests"]
async fn with_the_right_password_it_goes_in_and_comes_back() {
    let registry = guarded();
    let docker = logged_in(&registry, "publisher", "correct horse");
    let options = registry::Options { docker_config: Some(docker.path().to_owned()), ..options() };
    let pushed = registry::push(&policy(1000, 1), &registry.name("policies/test:v1"), &options).await.unwrap();
    assert_eq!(registry::pull(&pushed.reference, &options).await.unwrap().wasm, policy(1000, 1));
}

#[test]
#[ignore = "needs a registry: make registry-tests"]
fn with_a_wrong_password_it_says_whose_it_was_and_where_it_came_from() {
    let registry = guarded();
    let docker = logged_in(&registry, "publisher", "battery staple");
    let saved = Saved::new(&policy(1000, 1));
    let mut push = program(Some(docker.path()));
    push.arg("push").arg(saved.path()).arg(registry.name("policies/test:v1"));
    let error = run(push).unwrap_err();
    let address = registry.address();
    let config = docker.path().join("config.json");
    let expected = format!(
        "error: authentication failed at registry {address}: logged in as `publisher`, from {}. Log in with `docker login {address}`\n",
        config.display()
    );
    assert_eq!(error, expected);
    assert!(!error.contains("battery"));
    assert_eq!(registry.stored("policies/test"), (Vec::new(), Vec::new()));
}

#[test]
#[ignore = "needs a registry: make registry-tests"]
fn without_a_login_it_says_that_there_is_none() {
    let registry = guarded();
    let other = Registry::start();
    let docker = logged_in(&other, "publisher", "correct horse");
    let saved = Saved::new(&policy(1000, 1));
    let push = |docker_config| {
        let mut push = program(docker_config);
        push.arg("push").arg(saved.path()).arg(registry.name("policies/test:v1"));
        run(push).unwrap_err()
    };
    let error = push(None);
    assert!(error.contains("no login was used because there is no /nonexistent/config.json"), "{error}");
    let error = push(Some(docker.path()));
    assert!(error.contains("no login was used because ") && error.contains("config.json has none for it"), "{error}");
}

#[tokio::test]
#[ignore = "needs a registry: make registry-tests"]
async fn pulling_needs_the_login_too() {
    let registry = guarded();
    let error = registry::pull(&registry.name("policies/test:v1"), &options()).await.unwrap_err();
    assert!(matches!(error, registry::Error::Unauthorized { .. }), "{error}");
    let error = registry::bundle::pull(&registry.name("bundles/test:v1"), &options()).await.unwrap_err();
    assert!(matches!(error, registry::Error::Unauthorized { .. }), "{error}");
}
