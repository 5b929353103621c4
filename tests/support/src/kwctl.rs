//! The same by `kwctl run`, where there is a kwctl.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use operator_bounds::admission::{AdmissionResponse, Request};
use serde_json::{Value, json};
use tempfile::TempDir;

/// No trust root at all. Without it kwctl asks sigstore for one whenever it starts, which takes longer than everything else.
const TRUST: &str = r#"{"trustedRoot": {"mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
    "tlogs": [], "certificateAuthorities": [], "ctlogs": [], "timestampAuthorities": []}, "signingConfig": {}}"#;

/// A kwctl, and a home for it with the module in a file: there it keeps what it has compiled.
pub struct Kwctl {
    program: PathBuf,
    version: String,
    home: TempDir,
}

impl fmt::Display for Kwctl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.version)
    }
}

impl Kwctl {
    /// None if there is no kwctl.
    pub fn find(module: &[u8]) -> Option<Self> {
        let program = test_parts::find("kwctl").expect("tests/parts/find.sh works")?;
        let version = Command::new(&program).arg("--version").output().expect("kwctl runs");
        let version = String::from_utf8_lossy(&version.stdout).lines().next().unwrap_or_default().to_owned();
        let home = TempDir::new().expect("a temporary directory");
        fs::write(home.path().join("policy.wasm"), module).expect("the module can be written");
        fs::write(home.path().join("trust.json"), TRUST).expect("the trust root can be written");
        Some(Kwctl { program, version, home })
    }

    /// kwctl, without anything of this environment: a backtrace that is asked for there would be a part of its answers.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.env_clear().env("HOME", self.home.path()).env("NO_COLOR", "1");
        command
    }

    /// kwctl answers with the response that is expected.
    pub fn check(
        &self,
        request: &Value,
        settings: Option<&Value>,
        session: &str,
        response: &Value,
    ) -> Result<(), String> {
        let fail = |error: &dyn fmt::Display| format!("by kwctl: {error}");
        let files = TempDir::new_in(self.home.path()).map_err(|error| fail(&error))?;
        let write = |name: &str, content: &str| {
            let path = files.path().join(name);
            fs::write(&path, content).map(|()| path).map_err(|error| fail(&error))
        };
        let settings = settings.map_or_else(|| "{}".to_owned(), Value::to_string);
        let output = self
            .command()
            .args(["run", "--allow-context-aware", "--sigstore-trust-config"])
            .arg(self.home.path().join("trust.json"))
            .arg("--request-path")
            .arg(write("request.json", &request.to_string())?)
            .arg("--settings-path")
            .arg(write("settings.yaml", &settings)?)
            .arg("--replay-host-capabilities-interactions")
            .arg(write("session.yaml", session)?)
            .arg(self.home.path().join("policy.wasm"))
            .output()
            .map_err(|error| fail(&error))?;
        let log = String::from_utf8_lossy(&output.stderr);
        let found: Value = serde_json::from_slice(&output.stdout)
            .map_err(|error| fail(&format!("{error}: {}\n{log}", String::from_utf8_lossy(&output.stdout))))?;
        let expected = printed(request, response).map_err(|error| fail(&error))?;
        let keys = ["uid", "allowed", "status", "patchType", "patch", "warnings", "auditAnnotations"];
        let differing = keys.into_iter().find(|key| comparable(&found, key) != comparable(&expected, key));
        match differing {
            None => Ok(()),
            Some(key) => Err(format!("{key} by kwctl: {}\nhere: {}\n{log}", found[key], expected[key])),
        }
    }
}

/// The response as it is printed.
fn printed(request: &Value, response: &Value) -> Result<Value, String> {
    let request = request.to_string();
    let request = Request::parse(Path::new("request.json"), request.as_bytes()).map_err(|error| error.to_string())?;
    let response = serde_json::from_value(response.clone()).map_err(|error| error.to_string())?;
    let response = AdmissionResponse::new(&request, response).map_err(|error| error.to_string())?;
    serde_json::to_value(response).map_err(|error| error.to_string())
}

/// An answer, with nothing and an empty list of warnings made alike.
fn comparable(response: &Value, key: &str) -> Value {
    match &response[key] {
        Value::Array(elements) if elements.is_empty() => Value::Null,
        Value::Object(fields) => json!(fields.iter().filter(|(_, v)| !v.is_null()).collect::<Vec<_>>()),
        other => other.clone(),
    }
}
