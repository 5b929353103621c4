//! The real kwctl on the module as it is published: what it writes is what we write, and what we publish it can use.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::path::{Path, PathBuf};
use std::process::Command;

use operator_bounds::policy::MODULE;
use policy_module::Metadata;
use serde_json::json;
use tempfile::TempDir;
use test_kubewarden::Module;
use test_parts::root;

/// What kwctl adds of its own: which version of it has annotated the module.
const OWN_ANNOTATION: &str = "io.kubewarden.kwctl";

struct Kwctl {
    program: PathBuf,
    home: TempDir,
}

impl Kwctl {
    /// With a home of its own, where the module is a file. None, said loudly, where there is no kwctl.
    fn find() -> Option<Self> {
        let Some(program) = test_parts::find("kwctl").unwrap() else {
            test_parts::not_run("there is no kwctl, and it was not tried on the module");
            return None;
        };
        let home = TempDir::new().unwrap();
        std::fs::write(home.path().join("module.wasm"), MODULE).unwrap();
        Some(Kwctl { program, home })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn module(&self) -> PathBuf {
        self.path("module.wasm")
    }

    /// It may speak plain HTTP to this registry.
    fn trusts(&self, registry: &str) -> PathBuf {
        let sources = self.path("sources.yml");
        std::fs::write(&sources, json!({"insecure_sources": [registry]}).to_string()).unwrap();
        sources
    }

    /// What it prints. Nothing of this environment is passed on.
    fn run(&self, arguments: &[&str], files: &[&Path]) -> String {
        let mut command = Command::new(&self.program);
        command.env_clear().env("HOME", self.home.path()).env("NO_COLOR", "1").current_dir(self.home.path());
        let output = command.args(arguments).args(files).output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "kwctl {arguments:?}: {out}{err}");
        out.into_owned()
    }
}

fn ours() -> Metadata {
    policy_module::read_metadata(MODULE).unwrap().unwrap()
}

/// What kwctl has read or written, without what it says of itself.
fn theirs(mut metadata: Metadata) -> Metadata {
    metadata.annotations.iter_mut().for_each(|annotations| drop(annotations.remove(OWN_ANNOTATION)));
    metadata
}

#[test]
fn inspect_shows_the_metadata_that_we_have_written() {
    let Some(kwctl) = Kwctl::find() else { return };
    let printed = kwctl.run(&["inspect", "--output", "yaml"], &[&kwctl.module()]);
    assert_eq!(Metadata::from_yaml(&printed).unwrap(), ours());
}

#[test]
fn annotate_writes_what_we_write() {
    let Some(kwctl) = Kwctl::find() else { return };
    let (metadata, usage) = (root().join("policy-metadata/metadata.yml"), root().join("README.md"));
    let (metadata, usage) = (metadata.display().to_string(), usage.display().to_string());
    let arguments = ["annotate", "-m", &metadata, "-u", &usage, "-o", "annotated.wasm"];
    kwctl.run(&arguments, &[&kwctl.module()]);
    let written = std::fs::read(kwctl.path("annotated.wasm")).unwrap();
    let ours = policy_module::annotate(MODULE, &ours().with_usage(std::fs::read_to_string(&usage).unwrap())).unwrap();
    let read = |module: &[u8]| theirs(policy_module::read_metadata(module).unwrap().unwrap());
    assert_eq!(read(&written), read(&ours));
}

#[tokio::test]
async fn what_we_push_kwctl_pulls_and_what_kwctl_pushes_we_pull() {
    let Some(kwctl) = Kwctl::find() else { return };
    let module = Module::publish().await.unwrap();
    let registry = module.registry().address();
    let sources = kwctl.trusts(registry).display().to_string();
    kwctl.run(&["pull", "--sources-path", &sources, "-o", "pulled.wasm", module.reference()], &[]);
    assert!(std::fs::read(kwctl.path("pulled.wasm")).unwrap() == MODULE, "kwctl pulls something else");

    let name = format!("registry://{registry}/policies/by-kwctl:v1");
    kwctl.run(&["push", "--sources-path", &sources, &kwctl.module().display().to_string(), &name], &[]);
    let pulled = registry::pull(&name, &registry::Options::default()).await.unwrap();
    assert!(pulled.wasm == MODULE, "we pull something else than kwctl has pushed");
    // One content, one digest: the manifests are the same, too.
    assert_eq!(pulled.digest, module.reference().rsplit_once('@').unwrap().1);
}

#[test]
fn bench_runs_the_module() {
    let Some(kwctl) = Kwctl::find() else { return };
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "some", "namespace": "default"}});
    let kind = json!({"group": "", "version": "v1", "kind": "ConfigMap"});
    let request = json!({"uid": "1", "kind": kind, "resource": {"group": "", "version": "v1", "resource": "configmaps"},
        "name": "some", "namespace": "default", "operation": "CREATE", "userInfo": {"username": "somebody"}, "object": object});
    std::fs::write(kwctl.path("request.json"), request.to_string()).unwrap();
    let quick = ["--warm-up-time", "1", "--measurement-time", "1", "--num-samples", "10", "--num-resamples", "10"];
    let arguments = [&["bench", "--request-path", "request.json", "--settings-json", "{}"][..], &quick].concat();
    let printed = kwctl.run(&arguments, &[&kwctl.module()]);
    assert!(printed.contains("iter"), "{printed}");
}
