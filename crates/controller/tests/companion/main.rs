//! The companion on a real control plane, as a process with its own rights, and beside the real OLM.
//!
//! `make controller-tests` runs it; `cargo test` alone does not, because it takes minutes. Arguments choose cases by name.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bench;
mod gate;
mod hostile;
mod program;
mod scope;
mod v0;
mod v1;

use std::time::Instant;

use test_olm::{Cluster, OlmV0, OlmV1};

fn main() -> anyhow::Result<()> {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    if std::env::var_os("CONTROLLER_TESTS").is_none() {
        println!("NOT RUN: the companion on a real control plane. Run it with: make controller-tests");
        return Ok(());
    }
    tokio::runtime::Runtime::new()?.block_on(run(&wanted))
}

async fn run(wanted: &[String]) -> anyhow::Result<()> {
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|word| name.contains(word.as_str()));
    macro_rules! case {
        ($name:literal, $case:expr) => {
            if is_wanted($name) {
                let began = Instant::now();
                $case.await.map_err(|error: anyhow::Error| error.context($name))?;
                println!("ok {} ({:.1} s)", $name, began.elapsed().as_secs_f32());
            }
        };
    }
    let cluster = Cluster::start("deprecated").await?;
    if wanted.iter().any(|word| word.starts_with("bench")) {
        case!("bench: scale", bench::scale(&cluster));
        return Ok(());
    }
    case!("scope: the API server decides as the extension", scope::the_api_server_decides(&cluster));
    case!("scope: bad input is refused and widens nothing", scope::bad_input(&cluster));
    case!("scope: watches stream, and little time is added", scope::streams(&cluster));
    case!("gate: broken and hostile plans wait, and people are told", hostile::plans_wait(&cluster));
    case!("gate: each of its rights is needed", gate::each_right_is_needed(&cluster));
    if is_wanted("gate") {
        if OlmV0::is_there()? {
            let world = v0::World::start(&cluster).await?;
            case!("gate beside OLM: waits, granted, installed, upgraded", v0::within_bounds(&world));
            case!("gate beside OLM: upgrades that ask for nothing new", v0::no_wider(&world));
            case!("gate beside OLM: without an account, and with one that is gone", v0::accounts(&world));
            case!("gate beside OLM: a plan of 200 steps", v0::many_steps(&world));
            case!("gate beside OLM: two replicas, and the leader is killed", v0::replicas(&world));
            case!("gate: what it wrote, by the audit log", async { gate::rights(&cluster) });
        } else {
            test_parts::not_run("the gate was not tried beside OLM v0: it is not there");
        }
    }
    if is_wanted("scope beside OLM") {
        if OlmV1::is_there(None)? {
            case!("scope beside OLM: refused, granted, upgraded, uninstalled", v1::lives(&cluster));
        } else {
            test_parts::not_run("the sidecar was not tried beside OLM v1: it is not there");
        }
    }
    Ok(())
}
