//! What the webhook answers and looks up, on a real control plane.
//!
//! Ignored unless asked for: `cargo test --workspace --test webhook -- --include-ignored`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod answers;
mod client;
mod proxy;
mod stage;
mod watches;
mod webhook;

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Trial};
use stage::Stage;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let stage = Arc::new(Stage::default());
    let cases = answers::CASES.iter().chain(watches::CASES);
    let trials = cases.map(|&(name, case)| {
        let stage = Arc::clone(&stage);
        let run = move || {
            case(&stage);
            Ok(())
        };
        Trial::test(name, run).with_kind("control plane").with_ignored_flag(true)
    });
    let conclusion = libtest_mimic::run(&arguments, trials.collect());
    if conclusion.num_ignored > 0 {
        eprintln!("NOT RUN: {} cases need the control plane: make webhook-tests", conclusion.num_ignored);
    }
    // Stops the control plane, before the process ends without asking.
    drop(stage);
    conclusion.exit_code()
}
