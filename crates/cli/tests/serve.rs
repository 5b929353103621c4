//! The webhook: what it refuses to start with, and, on a real control plane, what it answers and looks up.
//!
//! The cases that need the control plane are ignored unless asked for:
//! `cargo test -p operator-bounds --test serve -- --include-ignored`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod serving;

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Trial};
use serving::stage::Stage;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let stage = Arc::new(Stage::default());
    let mut trials: Vec<Trial> = serving::refusals::CASES
        .iter()
        .map(|&(name, case)| {
            Trial::test(name, move || {
                case();
                Ok(())
            })
        })
        .collect();
    let live = serving::answers::CASES.iter().chain(serving::lookups::CASES).chain(serving::commands::CASES);
    trials.extend(live.map(|&(name, case)| {
        let stage = Arc::clone(&stage);
        let run = move || {
            case(&stage);
            Ok(())
        };
        Trial::test(name, run).with_kind("control plane").with_ignored_flag(true)
    }));
    let conclusion = libtest_mimic::run(&arguments, trials);
    if conclusion.num_ignored > 0 {
        eprintln!(
            "NOT RUN: {} cases need the control plane (and Go to build it): add `-- --include-ignored`",
            conclusion.num_ignored
        );
    }
    // Stops the control plane, before the process ends without asking.
    drop(stage);
    conclusion.exit_code()
}
