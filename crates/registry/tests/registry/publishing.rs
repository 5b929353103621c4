//! A policy goes to the registry and comes back.

use std::fs;

use serde_json::json;

use crate::policies::{Saved, module, options, policy, program, run};
use crate::server::Registry;

#[tokio::test]
#[ignore = "needs a registry: make registry-tests"]
async fn what_is_pushed_comes_back_by_tag_and_by_digest() {
    let registry = Registry::start();
    let wasm = policy(600_000, 1);
    let pushed = registry::push(&wasm, &registry.name("policies/test:v1"), &options()).await.unwrap();
    assert_eq!(pushed.reference, registry.name(&format!("policies/test@{}", pushed.digest)));
    assert_eq!(pushed.replaced, None);

    for name in [registry.name("policies/test:v1"), pushed.reference.clone()] {
        let pulled = registry::pull(&name, &options()).await.unwrap();
        assert_eq!(pulled.wasm, wasm);
        assert_eq!((&pulled.digest, &pulled.reference), (&pushed.digest, &pushed.reference));
        let annotations = pulled.metadata.annotations.unwrap();
        assert_eq!(annotations["io.kubewarden.policy.title"], "registry-test");
        assert_eq!(annotations["io.kubewarden.policy.usage"], "one line\nand another");
    }
}

#[tokio::test]
#[ignore = "needs a registry: make registry-tests"]
async fn the_manifest_has_the_media_types_and_annotations_of_kubewarden() {
    let registry = Registry::start();
    let wasm = policy(1000, 1);
    let pushed = registry::push(&wasm, &registry.name("policies/test:v1"), &options()).await.unwrap();
    let manifest = registry.manifest(&pushed.digest);
    assert_eq!(manifest["config"]["mediaType"], "application/vnd.wasm.config.v1+json");
    assert_eq!(fs::read(registry.blob(manifest["config"]["digest"].as_str().unwrap())).unwrap(), b"{}");
    assert_eq!(manifest["layers"].as_array().unwrap().len(), 1);
    assert_eq!(manifest["layers"][0]["mediaType"], "application/vnd.wasm.content.layer.v1+wasm");
    assert_eq!(fs::read(registry.blob(manifest["layers"][0]["digest"].as_str().unwrap())).unwrap(), wasm);
    let annotations = json!({
        "io.kubewarden.policy.source": "https://example.com/sources",
        "io.kubewarden.policy.title": "registry-test",
        "org.opencontainers.image.source": "https://example.com/sources",
    });
    assert_eq!(manifest["annotations"], annotations);
}

#[tokio::test]
#[ignore = "needs a registry: make registry-tests"]
async fn pushing_again_and_under_other_tags_gives_the_same_digest() {
    let registry = Registry::start();
    let wasm = policy(1000, 1);
    let mut digests = Vec::new();
    for tag in ["v1", "v1", "v1.0", "latest"] {
        let pushed = registry::push(&wasm, &registry.name(&format!("policies/test:{tag}")), &options()).await.unwrap();
        assert_eq!(pushed.replaced, None, "{tag}");
        digests.push(pushed.digest);
    }
    digests.dedup();
    assert_eq!(digests.len(), 1);
    let (tags, manifests) = registry.stored("policies/test");
    assert_eq!(tags, ["latest", "v1", "v1.0"]);
    assert_eq!(manifests.len(), 1);
}

#[tokio::test]
#[ignore = "needs a registry: make registry-tests"]
async fn a_tag_moves_and_its_old_digest_stays() {
    let registry = Registry::start();
    let name = registry.name("policies/test:latest");
    let first = registry::push(&policy(1000, 1), &name, &options()).await.unwrap();
    let second = registry::push(&policy(1000, 2), &name, &options()).await.unwrap();
    assert_eq!(second.replaced, Some(first.digest.clone()));
    assert_eq!(registry::pull(&name, &options()).await.unwrap().digest, second.digest);
    assert_eq!(registry::pull(&first.reference, &options()).await.unwrap().wasm, policy(1000, 1));
}

#[tokio::test]
#[ignore = "needs a registry: make registry-tests"]
async fn a_tag_that_must_not_move_stays_where_it_is() {
    let registry = Registry::start();
    let name = registry.name("policies/test:v1");
    let first = registry::push(&policy(1000, 1), &name, &options()).await.unwrap();
    let keeping = registry::Options { no_overwrite: true, ..options() };
    let error = registry::push(&policy(1000, 2), &name, &keeping).await.unwrap_err().to_string();
    assert!(error.contains(&format!("already exists with digest {}", first.digest)), "{error}");
    assert_eq!(registry.stored("policies/test").1.len(), 1);
    let again = registry::push(&policy(1000, 1), &name, &keeping).await.unwrap();
    assert_eq!(again, first);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs a registry: make registry-tests"]
async fn pushes_at_the_same_time_do_not_harm_each_other() {
    let registry = Registry::start();
    let mut pushes = tokio::task::JoinSet::new();
    for seed in 0..6 {
        // Two and two are the same policy; all of them want the same tag, and each one of its own.
        for tag in ["latest".to_owned(), format!("v{seed}")] {
            let name = registry.name(&format!("policies/test:{tag}"));
            pushes.spawn(async move { registry::push(&policy(50_000, seed / 2), &name, &options()).await.unwrap() });
        }
    }
    let pushed = pushes.join_all().await;
    for pushed in &pushed {
        registry::pull(&pushed.reference, &options()).await.unwrap();
    }
    let latest = registry::pull(&registry.name("policies/test:latest"), &options()).await.unwrap();
    assert!(pushed.iter().any(|pushed| pushed.digest == latest.digest));
    assert_eq!(registry.stored("policies/test").1.len(), 3);
    for seed in 0..6 {
        let pulled = registry::pull(&registry.name(&format!("policies/test:v{seed}")), &options()).await.unwrap();
        assert_eq!(pulled.wasm, policy(50_000, seed / 2));
    }
}

#[tokio::test]
#[ignore = "needs a registry: make registry-tests"]
async fn content_that_was_tampered_with_is_refused() {
    let registry = Registry::start();
    let pushed = registry::push(&policy(1000, 1), &registry.name("policies/test:v1"), &options()).await.unwrap();
    let layer = registry.manifest(&pushed.digest)["layers"][0]["digest"].as_str().unwrap().to_owned();
    let original = fs::read(registry.blob(&layer)).unwrap();

    let mut changed = original.clone();
    changed[500] ^= 1;
    fs::write(registry.blob(&layer), changed).unwrap();
    let error = registry::pull(&registry.name("policies/test:v1"), &options()).await.unwrap_err();
    assert!(matches!(error, registry::Error::Corrupted { .. }), "{error}");
    fs::write(registry.blob(&layer), &original).unwrap();

    let manifest = fs::read_to_string(registry.blob(&pushed.digest)).unwrap();
    fs::write(registry.blob(&pushed.digest), manifest.replace("registry-test", "registry-tesT")).unwrap();
    for name in [registry.name("policies/test:v1"), pushed.reference] {
        registry::pull(&name, &options()).await.unwrap_err();
    }
}

#[tokio::test]
#[ignore = "needs a registry: make registry-tests"]
async fn what_is_not_there_is_said() {
    let registry = Registry::start();
    let error = registry::pull(&registry.name("policies/test:v1"), &options()).await.unwrap_err().to_string();
    assert!(error.ends_with("policies/test:v1 does not exist: check the name and the tag or digest"), "{error}");
}

#[test]
#[ignore = "needs a registry: make registry-tests"]
fn the_program_prints_the_immutable_reference_and_nothing_else() {
    let registry = Registry::start();
    let saved = Saved::new(&policy(1000, 1));
    // Without the scheme too.
    let plain = format!("{}/policies/test:v1", registry.address());
    let mut push = program(None);
    push.arg("push").arg(saved.path()).arg(&plain);
    let pushed = run(push).unwrap();
    assert!(pushed.starts_with(&registry.name("policies/test@sha256:")), "{pushed}");

    let output = saved.path().with_file_name("pulled.wasm");
    let mut pull = program(None);
    pull.arg("pull").arg(&pushed).arg("--output").arg(&output);
    assert_eq!(run(pull).unwrap(), pushed);
    assert_eq!(fs::read(output).unwrap(), policy(1000, 1));
}

#[test]
#[ignore = "needs a registry: make registry-tests"]
fn what_is_not_an_annotated_policy_is_refused_before_anything_is_uploaded() {
    let registry = Registry::start();
    for (content, words) in [
        (module(1000, 1), "without Kubewarden's metadata: annotate it first"),
        (b"#!/bin/sh".to_vec(), "not a wasm module: the header of a version 1 module is missing"),
        (policy(1000, 1)[..700].to_vec(), "not a wasm module: unexpected end"),
        (Vec::new(), "not a wasm module"),
    ] {
        let saved = Saved::new(&content);
        let mut push = program(None);
        push.arg("push").arg(saved.path()).arg(registry.name("policies/test:v1"));
        let error = run(push).unwrap_err();
        assert!(error.contains("policy.wasm: ") && error.contains(words), "{error}");
    }
    assert_eq!(registry.stored("policies/test"), (Vec::new(), Vec::new()));
}

#[test]
#[ignore = "needs a registry: make registry-tests"]
fn a_digest_cannot_be_pushed_to() {
    let registry = Registry::start();
    let saved = Saved::new(&policy(1000, 1));
    let mut push = program(None);
    push.arg("push").arg(saved.path()).arg(registry.name(&format!("policies/test@sha256:{}", "a".repeat(64))));
    assert!(run(push).unwrap_err().contains("cannot be chosen: use a tag"));
}
