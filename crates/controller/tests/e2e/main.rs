//! The controller on a real control plane, as a process with exactly its own RBAC. One control plane serves all tests;
//! each has namespaces of its own.
//!
//! `make controller-tests`, or with `CONTROLLER_TESTS=1` in the environment: `cargo test -p operator-bounds-controller
//! --test e2e [-- PART-OF-A-NAME]`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod audit;
mod bad_input;
mod fixtures;
mod group;
mod interrupted;
mod operations;
mod plan;
mod scenarios;
mod upgrade;
mod world;

use std::process::Command;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};

use world::World;

type Test = fn(&World);

fn main() {
    let arguments = Arguments::from_args();
    if std::env::var_os("CONTROLLER_TESTS").is_none() {
        println!(
            "NOT RUN: the controller's end-to-end tests start a control plane. Run them with: make controller-tests"
        );
        return;
    }
    let has_go = Command::new("go").arg("version").output().is_ok_and(|output| output.status.success());
    if !has_go {
        eprintln!(
            "NOT RUN: Go 1.26 is not on PATH, and the control plane is built with it. THE CONTROLLER WAS NOT TESTED."
        );
        std::process::exit(1);
    }
    let tests: Vec<(&str, Test)> = [
        group::TESTS,
        plan::TESTS,
        scenarios::TESTS,
        upgrade::TESTS,
        bad_input::TESTS,
        interrupted::TESTS,
        operations::TESTS,
    ]
    .concat();
    let last: &[(&str, Test)] = operations::LAST;
    if arguments.list {
        let trials = tests.iter().chain(last).map(|(name, _)| Trial::test(*name, || Ok(()))).collect();
        libtest_mimic::run(&arguments, trials).exit();
    }
    let world = Arc::new(World::start());
    let trials = |tests: &[(&str, Test)]| -> Vec<Trial> {
        tests
            .iter()
            .map(|(name, test)| {
                let (world, test) = (Arc::clone(&world), *test);
                Trial::test(*name, move || run(&world, test))
            })
            .collect()
    };
    let first = libtest_mimic::run(&arguments, trials(&tests));
    // What looks at everything that happened, after everything has happened, one by one.
    let last = if arguments.filter.is_none() { trials(last) } else { Vec::new() };
    let second = libtest_mimic::run(&Arguments { test_threads: Some(1), ..arguments }, last);
    let failed = first.has_failed() || second.has_failed();
    world.stop();
    drop(world);
    std::process::exit(i32::from(failed));
}

/// A panic is a failure, and the control plane is stopped all the same.
fn run(world: &World, test: Test) -> Result<(), Failed> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(world))).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default().into()
    })
}
