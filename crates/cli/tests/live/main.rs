//! The command line and a live cluster. What needs a real control plane is ignored unless asked for:
//! `cargo test --workspace --test live -- --include-ignored`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod audit;
mod commands;
mod lookups;
#[path = "../fixture/operators.rs"]
mod operators;
mod refusals;

use std::path::PathBuf;
use std::process::{Command, ExitCode, Output};
use std::sync::{Arc, OnceLock};

use libtest_mimic::{Arguments, Trial};
use serde_json::Value;
use test_plane::Plane;
use test_plane::api::Api;

macro_rules! cases {
    ($($module:ident::$case:ident),* $(,)?) => { [$((stringify!($case), $module::$case)),*] };
}

/// A case that needs the control plane, and its name.
type Case = (&'static str, fn(&Stage));

/// The control plane that the cases share, started by the first that needs it.
#[derive(Default)]
struct Stage {
    plane: OnceLock<Plane>,
}

impl Stage {
    fn kubeconfig(&self) -> PathBuf {
        self.plane.get_or_init(|| Plane::start(&[]).expect("a control plane")).kubeconfig()
    }

    /// Creates objects, in order.
    fn create(&self, objects: &[Value]) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let api = Api::connect(&self.kubeconfig()).await.unwrap();
            for object in objects {
                api.create(object).await.unwrap();
            }
        });
    }
}

fn operator_bounds(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_operator-bounds")).args(arguments).output().unwrap()
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let offline: [(&str, fn()); 5] = cases![
        refusals::a_dead_api_server_is_named,
        refusals::a_silent_api_server_is_given_up,
        refusals::an_unreadable_kubeconfig_is_named,
        refusals::a_broken_kubeconfig_is_named_and_not_quoted,
        refusals::a_context_that_does_not_exist_is_named,
    ];
    let online: [Case; 8] = cases![
        audit::a_cluster_of_real_operators_is_audited_bounded_and_audited_again,
        commands::an_operator_is_refused_derived_granted_and_accepted,
        commands::credentials_that_the_api_server_refuses_are_named,
        commands::extensions_that_block_an_upgrade_are_found,
        lookups::an_access_review_counts_groups,
        lookups::lists_are_masked_and_sorted,
        lookups::what_is_not_there_and_what_is_not_served_are_told_apart,
        lookups::what_the_metadata_does_not_declare_is_not_looked_up,
    ];
    let stage = Arc::new(Stage::default());
    let offline = offline.into_iter().map(|(name, case)| trial(name, case));
    let online = online.into_iter().map(|(name, case)| {
        let stage = Arc::clone(&stage);
        trial(name, move || case(&stage)).with_kind("control plane").with_ignored_flag(true)
    });
    let conclusion = libtest_mimic::run(&arguments, offline.chain(online).collect());
    if conclusion.num_ignored > 0 {
        eprintln!("NOT RUN: {} cases need the control plane: make live-tests", conclusion.num_ignored);
    }
    // Stops the control plane, before the process ends without asking.
    drop(stage);
    conclusion.exit_code()
}

fn trial(name: &str, case: impl FnOnce() + Send + 'static) -> Trial {
    Trial::test(name, move || {
        case();
        Ok(())
    })
}
