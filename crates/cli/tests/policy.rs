//! The embedded module and the native decisions: the same answers from the same look-ups.

#![allow(clippy::unwrap_used, missing_docs)]

use std::sync::Arc;

use bounds::cluster;
use operator_bounds::engine::Limits;
use operator_bounds::host::Exchange;
use operator_bounds::policy::{MODULE, Policy, ValidationResponse};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

/// An OperatorGroup with an account, sent by somebody who may not choose it.
fn request() -> Box<RawValue> {
    let kind = json!({"group": "operators.coreos.com", "version": "v1", "kind": "OperatorGroup"});
    let object = json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
                        "metadata": {"name": "og", "namespace": "a"}, "spec": {"serviceAccountName": "installer"}});
    let resource = json!({"group": "operators.coreos.com", "version": "v1", "resource": "operatorgroups"});
    let request = json!({"uid": "1", "kind": kind, "resource": resource, "operation": "CREATE", "namespace": "a",
                         "userInfo": {"username": "jane", "groups": ["system:authenticated"]}, "object": object});
    to_raw_value(&request).unwrap()
}

fn judge(policy: &Policy, fail_on: Option<&str>) -> (ValidationResponse, Vec<Exchange>) {
    let settings = to_raw_value(&json!({})).unwrap();
    let host = policy.host(&Arc::default());
    let host = match fail_on {
        Some(kind) => host.fail_on(kind, "the API server is away"),
        None => host,
    };
    let host = Arc::new(host);
    (policy.validate(&request(), &settings, &host).unwrap(), host.exchanges())
}

#[test]
fn the_module_and_the_native_decisions_agree() {
    let (module, native) = (Policy::embedded(Limits::default()).unwrap(), Policy::native().unwrap());
    for fail_on in [None, Some("OperatorGroup"), Some("ClusterRoleBinding")] {
        assert_eq!(judge(&module, fail_on), judge(&native, fail_on), "{fail_on:?}");
    }
}

#[test]
fn a_look_up_that_fails_refuses_and_says_which() {
    let (response, exchanges) = judge(&Policy::native().unwrap(), Some("OperatorGroup"));
    let message = response.message.unwrap();
    assert!(!response.accepted);
    assert!(message.contains("OperatorGroup") && message.contains("the API server is away"), "{message}");
    assert_eq!(exchanges.last().unwrap().response, Err("the API server is away".to_owned()));
}

#[test]
fn the_metadata_declares_every_kind_that_is_looked_up() {
    let metadata = policy_module::read_metadata(MODULE).unwrap().unwrap();
    for resource in [
        cluster::OPERATOR_GROUPS,
        cluster::CLUSTER_SERVICE_VERSIONS,
        cluster::CLUSTER_ROLE_BINDINGS,
        cluster::ROLE_BINDINGS,
        cluster::CLUSTER_ROLES,
        cluster::ROLES,
        cluster::NAMESPACES,
        cluster::SERVICE_ACCOUNTS,
        cluster::CONFIG_MAPS,
    ] {
        assert!(metadata.may_look_up(resource.api_version, resource.kind), "{resource:?}");
    }
}
