//! What the engine does with modules that misbehave.

#![allow(clippy::unwrap_used, missing_docs)]

use std::sync::Arc;

use operator_bounds::engine::{Engine, EngineError, Limits};
use operator_bounds::host::Host;

const METADATA: &str =
    "{mutating: false, rules: [{apiGroups: ['*'], apiVersions: ['*'], resources: ['*'], operations: [CREATE]}]}";

fn call(body: &str, limits: Limits) -> Vec<EngineError> {
    let module = format!(
        r#"(module (memory (export "memory") 1) (global $calls (mut i32) (i32.const 0))
             (func (export "__guest_call") (param i32 i32) (result i32) {body}))"#
    );
    let engine = Engine::new(&wat::parse_str(module).unwrap(), limits).unwrap();
    let metadata = policy_module::Metadata::from_yaml(METADATA).unwrap();
    let host = Arc::new(Host::new(Arc::default(), metadata.into()));
    (0..2).map(|_| engine.call(&host, "validate", b"{}").unwrap_err()).collect()
}

#[test]
fn a_crash_is_an_error_of_its_own_kind() {
    for error in call("unreachable", Limits::default()) {
        assert!(matches!(error, EngineError::Trap(_)), "{error:?}");
    }
}

#[test]
fn a_module_that_never_ends_is_ended() {
    for error in call("(loop (br 0)) (i32.const 1)", Limits { seconds: Some(1), ..Limits::default() }) {
        assert!(matches!(error, EngineError::Timeout(Some(1))), "{error:?}");
        assert_eq!(error.to_string(), "the evaluation exceeded its time limit of 1 s");
    }
}

#[test]
fn a_module_that_answers_with_an_error_did_not_crash() {
    for error in call("(i32.const 0)", Limits { seconds: None, ..Limits::default() }) {
        assert!(matches!(error, EngineError::Guest(_)), "{error:?}");
    }
}

#[test]
fn memory_beyond_the_limit_is_not_given() {
    let grow = "(if (i32.ge_s (memory.grow (i32.const 32)) (i32.const 0)) (then unreachable)) (i32.const 0)";
    for error in call(grow, Limits { memory: 1 << 20, seconds: None }) {
        assert!(matches!(error, EngineError::Guest(_)), "{error:?}");
    }
    for error in call(grow, Limits::default()) {
        assert!(matches!(error, EngineError::Trap(_)), "{error:?}");
    }
}

#[test]
fn every_call_finds_a_module_that_was_never_called() {
    let count = "(if (global.get $calls) (then unreachable)) (global.set $calls (i32.const 1)) (i32.const 0)";
    for error in call(count, Limits::default()) {
        assert!(matches!(error, EngineError::Guest(_)), "{error:?}");
    }
}

#[test]
fn what_is_no_module_cannot_be_started() {
    let error = Engine::new(b"#!/bin/sh", Limits::default()).err().unwrap();
    assert!(matches!(error, EngineError::Start(_)), "{error:?}");
}
