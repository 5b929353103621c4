//! The control plane, the controller, and what administrators do.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};
use serde_json::{Value, json};
use test_plane::Plane;
use tokio::runtime::Runtime;

use crate::audit::Audit;

/// How long anything may take before a test gives up. Nothing is asserted about time.
const PATIENCE: Duration = Duration::from_secs(90);
/// Namespaces with this label are the shared controller's.
pub(crate) const LABEL: &str = "e2e/controller";

/// One control plane, one controller, one administrator.
pub(crate) struct World {
    pub runtime: Runtime,
    pub admin: Client,
    plane: Mutex<Option<Plane>>,
    directory: PathBuf,
    controller: Mutex<Option<Process>>,
}

/// A controller that runs; it is killed when this is dropped.
pub(crate) struct Process {
    child: Child,
    pub port: u16,
    log: PathBuf,
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Process {
    /// Ends it on the spot, as a crash would.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Asks it to stop, and returns whether it stopped well.
    pub(crate) fn terminate(&mut self) -> bool {
        let _ = Command::new("kill").arg(self.id().to_string()).status();
        self.child.wait().is_ok_and(|status| status.success())
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl World {
    pub(crate) fn start() -> Self {
        let world = World::start_without_controller();
        let controller = world.spawn(&["--label-selector", &format!("{LABEL}=shared")], "operator-bounds", None);
        *world.controller.lock().unwrap() = Some(controller);
        world
    }

    /// The control plane, and the controller's account with its rights.
    pub(crate) fn start_without_controller() -> Self {
        let audit = tempfile::Builder::new().prefix("operator-bounds-audit-").tempdir().unwrap().keep();
        let policy = audit.join("policy.yaml");
        let text =
            "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n";
        std::fs::write(&policy, text).unwrap();
        let plane = Plane::start(&[
            "--olm-v1",
            "none",
            "--apiserver-arg",
            &format!("audit-policy-file={}", policy.display()),
            "--apiserver-arg",
            &format!("audit-log-path={}", audit.join("audit.log").display()),
        ])
        .expect("a control plane");
        let runtime = Runtime::new().unwrap();
        let admin = runtime.block_on(client(&plane.kubeconfig()));
        let world =
            World { runtime, admin, plane: Mutex::new(Some(plane)), directory: audit, controller: Mutex::new(None) };
        world.apply(&[json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "operator-bounds"}})]);
        let rbac = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/controller/rbac.yaml"));
        let documents: Vec<Value> = serde_saphyr::from_multiple(&rbac.unwrap()).unwrap();
        world.apply(&documents);
        world.runtime.spawn(kubelet(world.admin.clone()));
        world
    }

    pub(crate) fn stop(&self) {
        self.controller.lock().unwrap().take();
        self.plane.lock().unwrap().take();
        let _ = std::fs::remove_dir_all(&self.directory);
    }

    /// Stops the shared controller, and hands out what it has logged.
    pub(crate) fn stop_controller(&self) -> (bool, String) {
        let mut controller = self.controller.lock().unwrap().take().expect("the controller runs");
        (controller.terminate(), controller.log())
    }

    pub(crate) fn port(&self) -> u16 {
        self.controller.lock().unwrap().as_ref().expect("the controller runs").port
    }

    pub(crate) fn controller_log(&self) -> String {
        self.controller.lock().unwrap().as_ref().map(Process::log).unwrap_or_default()
    }

    pub(crate) fn audit(&self) -> Audit {
        Audit::read(&self.directory.join("audit.log"))
    }

    /// Starts a controller as its own account, reaching the API server through `server` if that is given.
    pub(crate) fn spawn(&self, arguments: &[&str], lease_namespace: &str, server: Option<&str>) -> Process {
        self.apply(&lease_rights(lease_namespace));
        let plane = self.plane.lock().unwrap();
        let mut config = Kubeconfig::read_from(plane.as_ref().unwrap().kubeconfig()).unwrap();
        let token = self.token("operator-bounds", "operator-bounds-controller");
        for user in &mut config.auth_infos {
            user.auth_info = Some(kube::config::AuthInfo { token: Some(token.clone().into()), ..Default::default() });
        }
        if let Some(server) = server {
            for cluster in &mut config.clusters {
                cluster.cluster.as_mut().unwrap().server = Some(server.to_owned());
            }
        }
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let file = self.directory.join(format!("kubeconfig-{port}"));
        // The token is written out here, because a test's kubeconfig needs it; `to_value` leaves secrets out.
        let mut text = serde_json::to_value(&config).unwrap();
        for user in text["users"].as_array_mut().unwrap() {
            user["user"] = json!({"token": token});
        }
        std::fs::write(&file, text.to_string()).unwrap();
        let log = self.directory.join(format!("controller-{port}.log"));
        let child = Command::new(env!("CARGO_BIN_EXE_operator-bounds-controller"))
            .env("KUBECONFIG", &file)
            .env_remove("POD_NAMESPACE")
            .args(["--install-plans", "--listen", &format!("127.0.0.1:{port}"), "--lease-duration", "5"])
            .args(["--lease-namespace", lease_namespace])
            .args(arguments)
            .stderr(Stdio::from(std::fs::File::create(&log).unwrap()))
            .spawn()
            .expect("the controller starts");
        Process { child, port, log }
    }

    fn token(&self, namespace: &str, name: &str) -> String {
        self.runtime.block_on(async {
            let accounts: Api<ServiceAccount> = Api::namespaced(self.admin.clone(), namespace);
            let spec = TokenRequestSpec { expiration_seconds: Some(7200), ..TokenRequestSpec::default() };
            let request = TokenRequest { spec, ..TokenRequest::default() };
            let made = accounts.create_token_request(name, &PostParams::default(), &request).await.unwrap();
            made.status.unwrap().token
        })
    }

    /// The port of the API server.
    pub(crate) fn server_port(&self) -> u16 {
        let plane = self.plane.lock().unwrap();
        let config = Kubeconfig::read_from(plane.as_ref().unwrap().kubeconfig()).unwrap();
        let server = config.clusters[0].cluster.as_ref().unwrap().server.clone().unwrap();
        server.rsplit(':').next().unwrap().trim_end_matches('/').parse().unwrap()
    }

    /// A new namespace in which the shared controller acts.
    pub(crate) fn namespace(&self, name: &str) -> String {
        self.labelled_namespace(name, "shared")
    }

    /// A new namespace for another controller, or for none.
    pub(crate) fn labelled_namespace(&self, name: &str, label: &str) -> String {
        let object =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {LABEL: label}}});
        self.apply(&[object]);
        self.until("the default account", || self.get("ServiceAccount", name, "default"));
        name.to_owned()
    }

    /// `kubectl apply` as the administrator.
    pub(crate) fn apply(&self, objects: &[Value]) {
        for object in objects {
            self.try_apply(object).unwrap_or_else(|error| panic!("{object}: {error}"));
        }
    }

    pub(crate) fn try_apply(&self, object: &Value) -> Result<DynamicObject, kube::Error> {
        let (api, name) = self.api_of(object);
        let params = PatchParams::apply("administrator").force();
        self.runtime.block_on(api.patch(&name, &params, &Patch::Apply(object)))
    }

    pub(crate) fn patch(&self, kind: &str, namespace: &str, name: &str, patch: &Value) {
        let api = self.api(kind, namespace);
        self.runtime.block_on(api.patch(name, &PatchParams::default(), &Patch::Merge(patch))).unwrap();
    }

    pub(crate) fn patch_status(&self, kind: &str, namespace: &str, name: &str, status: &Value) {
        let api = self.api(kind, namespace);
        let patch = json!({"status": status});
        self.runtime.block_on(api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch))).unwrap();
    }

    pub(crate) fn delete(&self, kind: &str, namespace: &str, name: &str) {
        self.try_delete(kind, namespace, name).unwrap();
        self.until("it is gone", || self.get(kind, namespace, name).is_none().then_some(()));
    }

    pub(crate) fn try_delete(&self, kind: &str, namespace: &str, name: &str) -> Result<(), kube::Error> {
        let api = self.api(kind, namespace);
        self.runtime.block_on(api.delete(name, &DeleteParams::default())).map(drop)
    }

    /// The object as JSON, if it exists.
    pub(crate) fn get(&self, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        let found = self.runtime.block_on(self.api(kind, namespace).get_opt(name)).unwrap();
        found.map(|object| serde_json::to_value(object).unwrap())
    }

    pub(crate) fn list(&self, kind: &str, namespace: &str) -> Vec<Value> {
        let found = self.runtime.block_on(self.api(kind, namespace).list(&ListParams::default())).unwrap();
        found.items.into_iter().map(|object| serde_json::to_value(object).unwrap()).collect()
    }

    fn api_of(&self, object: &Value) -> (Api<DynamicObject>, String) {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let resource = resource(object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
        let api = match object["metadata"]["namespace"].as_str() {
            Some(namespace) => Api::namespaced_with(self.admin.clone(), namespace, &resource),
            None => Api::all_with(self.admin.clone(), &resource),
        };
        (api, name)
    }

    /// A kind by its name; an empty namespace for kinds that have none.
    fn api(&self, kind: &str, namespace: &str) -> Api<DynamicObject> {
        let api_version = match kind {
            "OperatorGroup" => "operators.coreos.com/v1",
            "InstallPlan" | "ClusterServiceVersion" => "operators.coreos.com/v1alpha1",
            "Deployment" | "ReplicaSet" => "apps/v1",
            "Role" | "RoleBinding" | "ClusterRole" | "ClusterRoleBinding" => "rbac.authorization.k8s.io/v1",
            "CustomResourceDefinition" => "apiextensions.k8s.io/v1",
            "APIService" => "apiregistration.k8s.io/v1",
            "Event" => "events.k8s.io/v1",
            "ValidatingAdmissionPolicyBinding" => "admissionregistration.k8s.io/v1",
            "Lease" => "coordination.k8s.io/v1",
            _ => "v1",
        };
        let resource = resource(api_version, kind);
        match namespace {
            "" => Api::all_with(self.admin.clone(), &resource),
            namespace => Api::namespaced_with(self.admin.clone(), namespace, &resource),
        }
    }

    /// Waits for something to become true.
    pub(crate) fn until<T>(&self, what: &str, look: impl Fn() -> Option<T>) -> T {
        let began = Instant::now();
        loop {
            if let Some(found) = look() {
                return found;
            }
            if began.elapsed() > PATIENCE {
                let log = self.controller_log();
                let tail: Vec<String> =
                    log.lines().rev().take(12).map(|line| line.chars().take(400).collect()).collect();
                panic!("waited in vain for: {what}\nthe end of the controller's log:\n{}", tail.join("\n"));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Waits until the status of an object is as it should be, and returns it.
    pub(crate) fn status(&self, kind: &str, namespace: &str, name: &str, is: impl Fn(&Value) -> bool) -> Value {
        let last = Mutex::new(Value::Null);
        let look = || {
            let status = self.get(kind, namespace, name)?["status"].clone();
            *last.lock().unwrap() = status.clone();
            is(&status).then_some(status)
        };
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            self.until(&format!("the status of {kind} {namespace}/{name}"), look)
        }));
        found.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
            panic!("{text}\nit is {}", without_steps(last.lock().unwrap().clone()))
        })
    }

    pub(crate) fn phase(&self, kind: &str, namespace: &str, name: &str, phase: &str) -> Value {
        self.status(kind, namespace, name, |status| status["phase"] == phase)
    }

    /// Lets everything that is under way happen: until a namespace has not been written to for two seconds.
    pub(crate) fn quiet(&self, namespace: &str) {
        let before = std::cell::Cell::new(usize::MAX);
        self.until("quiet", || {
            let now = self.audit().in_namespace(namespace).count();
            let is_quiet = before.replace(now) == now;
            if !is_quiet {
                std::thread::sleep(Duration::from_secs(2));
            }
            is_quiet.then_some(())
        });
    }
}

/// What a controller needs where its Lease is.
fn lease_rights(namespace: &str) -> Vec<Value> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(&controller::rbac::manifest("operator-bounds")).unwrap();
    let own = documents.into_iter().filter(|object| matches!(object["kind"].as_str(), Some("Role" | "RoleBinding")));
    own.map(|mut object| {
        object["metadata"]["namespace"] = json!(namespace);
        object
    })
    .collect()
}

fn without_steps(mut status: Value) -> Value {
    if let Some(steps) = status["plan"].as_array_mut() {
        for step in steps {
            step["resource"]["manifest"] = json!("…");
        }
    }
    status
}

pub(crate) fn resource(api_version: &str, kind: &str) -> ApiResource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

async fn client(kubeconfig: &Path) -> Client {
    let config = Kubeconfig::read_from(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

/// Stands in for the nodes: every pod runs and is ready, unless its label `e2e/hold` says not yet.
async fn kubelet(client: Client) {
    let pods: Api<Pod> = Api::all(client.clone());
    loop {
        let waiting = ListParams::default().labels("!e2e/hold").fields("status.phase=Pending");
        for pod in pods.list(&waiting).await.map(|list| list.items).unwrap_or_default() {
            let own: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
            let status = json!({"status": {"phase": "Running", "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
            ]}});
            let _ = own.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Strategic(status)).await;
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}
