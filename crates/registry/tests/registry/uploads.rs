//! Uploads that do not get through leave nothing behind that could be pulled.

use std::net::TcpListener;
use std::process::Stdio;

use crate::policies::{Saved, options, policy, program, run};
use crate::proxy::{Ending, Proxy};
use crate::server::Registry;

const SIZE: usize = 600_000;

#[tokio::test]
#[ignore = "needs a registry: make registry-tests"]
async fn a_connection_cut_before_the_manifest_leaves_no_tag_and_no_manifest() {
    let registry = Registry::start();
    // In the first question, at the start of the module, in its middle, just before its end.
    for (repository, pushed) in cut(&registry, &[100, 5_000, SIZE / 2, SIZE]).await {
        let error = pushed.unwrap_err();
        assert_eq!(registry.stored(&repository), (Vec::new(), Vec::new()), "{repository}: {error}");
    }
}

#[tokio::test]
#[ignore = "needs a registry: make registry-tests"]
async fn a_connection_cut_around_the_manifest_leaves_nothing_or_all_of_it() {
    let registry = Registry::start();
    let around: Vec<_> = (1..=12).map(|step| SIZE + 500 * step).collect();
    for (repository, _) in cut(&registry, &around).await {
        if registry.stored(&repository) != (Vec::new(), Vec::new()) {
            let pulled = registry::pull(&registry.name(&format!("{repository}:v1")), &options()).await.unwrap();
            assert_eq!(pulled.wasm, policy(SIZE, 1), "{repository}");
        }
    }
}

/// What becomes of pushes whose connection is cut after so many bytes, each to a repository of its own.
async fn cut(registry: &Registry, after: &[usize]) -> Vec<(String, Result<registry::Pushed, registry::Error>)> {
    let mut pushes = tokio::task::JoinSet::new();
    for &bytes in after {
        let proxy = Proxy::to(registry.address(), bytes, Ending::Cut);
        pushes.spawn(async move {
            let repository = format!("policies/cut-after-{bytes}");
            let pushed = registry::push(&policy(SIZE, 1), &proxy.name(&format!("{repository}:v1")), &options()).await;
            assert!(pushed.is_ok() || proxy.has_ended(), "{pushed:?}");
            (repository, pushed)
        });
    }
    pushes.join_all().await
}

#[test]
#[ignore = "needs a registry: make registry-tests"]
fn a_program_killed_in_the_middle_leaves_no_tag_and_no_manifest() {
    let registry = Registry::start();
    let proxy = Proxy::to(registry.address(), SIZE / 2, Ending::Stall);
    let saved = Saved::new(&policy(SIZE, 1));
    let mut push = program(None);
    push.arg("push").arg(saved.path()).arg(proxy.name("policies/test:v1"));
    let mut pushing = push.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    proxy.wait_for_the_end();
    assert_eq!(pushing.try_wait().unwrap(), None);
    pushing.kill().unwrap();
    pushing.wait().unwrap();
    assert_eq!(registry.stored("policies/test"), (Vec::new(), Vec::new()));

    let mut again = program(None);
    again.arg("push").arg(saved.path()).arg(registry.name("policies/test:v1"));
    run(again).unwrap();
    assert_eq!(registry.stored("policies/test").0, ["v1"]);
}

#[tokio::test]
#[ignore = "needs a registry: make registry-tests"]
async fn a_cut_upload_leaves_the_tag_where_it_was() {
    let registry = Registry::start();
    let first = registry::push(&policy(SIZE, 1), &registry.name("policies/test:v1"), &options()).await.unwrap();
    let proxy = Proxy::to(registry.address(), SIZE / 2, Ending::Cut);
    let error = registry::push(&policy(SIZE, 2), &proxy.name("policies/test:v1"), &options()).await.unwrap_err();
    assert!(error.to_string().contains("uploading the policy failed at registry"), "{error}");
    let pulled = registry::pull(&registry.name("policies/test:v1"), &options()).await.unwrap();
    assert_eq!(pulled.digest, first.digest);
}

#[test]
fn a_registry_that_is_not_there_is_said() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let saved = Saved::new(&policy(1000, 1));
    let mut push = program(None);
    push.arg("push").arg(saved.path()).arg(format!("{free}/policies/test:v1"));
    let error = run(push).unwrap_err();
    assert!(error.starts_with(&format!("error: registry {free} cannot be reached: ")), "{error}");
    assert!(error.contains("Connection refused") && error.contains("Check the host and the port"), "{error}");
}
