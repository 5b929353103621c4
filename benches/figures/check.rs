//! How far `check` reaches: objects in a second, memory for four times the input, and the time to the first verdict.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::median;
use test_support::operators::{NAMESPACE, Shape};
use test_support::{root, text};

/// What one run took.
struct Run {
    time: Duration,
    /// On all cores together.
    busy: Duration,
    peak: u64,
    objects: usize,
}

/// Runs `check` over the corpus once and four times over, and over one operator with the compiled module at hand.
pub(crate) fn reach(operators: &[Value]) -> Result<()> {
    let binary = build()?;
    let work = TempDir::new()?;
    let cluster = work.path().join("cluster.json");
    fs::write(
        &cluster,
        json!({"apiVersion": "v1", "kind": "List", "items": [Shape::Own.operator_group(), account()]}).to_string(),
    )?;
    let [once, four] = [1, 4].map(|times| spread(work.path(), operators, times));
    let (once, four) = (once?, four?);
    // The first run compiles the module.
    check(&binary, &once, &cluster)?;
    for (what, input) in [("the corpus", once), ("the corpus four times", four)] {
        let run = check(&binary, &input, &cluster)?;
        println!(
            "check: {what}: {} objects in {:.2?}, {:.0} a second, {:.0} a second of one core (at least 200 wanted); peak memory {} KiB",
            run.objects,
            run.time,
            rate(run.objects, run.time),
            rate(run.objects, run.busy),
            run.peak
        );
    }
    first_verdict(&binary)
}

fn account() -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "installer", "namespace": NAMESPACE}})
}

#[allow(clippy::cast_precision_loss)]
fn rate(objects: usize, time: Duration) -> f64 {
    objects as f64 / time.as_secs_f64()
}

/// The command line, built as it is released.
fn build() -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = ["build", "--locked", "--quiet", "--release", "-p", "operator-bounds", "--bin", "operator-bounds"];
    let status = Command::new(cargo).current_dir(root()).args(arguments).status()?;
    ensure!(status.success(), "building the command line: {status}");
    Ok(root().join("target/release/operator-bounds"))
}

/// The operators in a directory of their own, each in as many files under as many names.
fn spread(work: &Path, operators: &[Value], times: usize) -> Result<PathBuf> {
    let directory = work.join(format!("times-{times}"));
    fs::create_dir(&directory)?;
    for (number, csv) in operators.iter().enumerate() {
        for copy in 0..times {
            let mut csv = csv.clone();
            csv["metadata"]["name"] = format!("{}-{copy}", text(&csv, "/metadata/name")).into();
            fs::write(directory.join(format!("{number}-{copy}.json")), csv.to_string())?;
        }
    }
    Ok(directory)
}

fn check(binary: &Path, input: &Path, cluster: &Path) -> Result<Run> {
    let start = Instant::now();
    let mut child = Command::new(binary)
        .arg("check")
        .arg(input)
        .arg("--cluster")
        .arg(cluster)
        .args(["--namespace", NAMESPACE, "--output-file"])
        .arg(input.with_extension("txt"))
        .stdin(Stdio::null())
        .spawn()?;
    let (peak, busy) = watch(&mut child)?;
    let time = start.elapsed();
    let report = fs::read_to_string(input.with_extension("txt"))?;
    let last = report.lines().last().context("an empty report")?;
    let objects = last.split(' ').next().and_then(|count| count.parse().ok()).with_context(|| last.to_owned())?;
    Ok(Run { time, busy, peak, objects })
}

/// The peak of a process' memory and its time on the processor, as the kernel counts them until it ends.
fn watch(child: &mut Child) -> Result<(u64, Duration)> {
    let (mut peak, mut busy) = (0, Duration::ZERO);
    let proc = PathBuf::from(format!("/proc/{}", child.id()));
    while child.try_wait()?.is_none() {
        let status = fs::read_to_string(proc.join("status")).unwrap_or_default();
        let high = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        peak = high.and_then(|line| line.trim().split(' ').next()?.parse().ok()).unwrap_or(peak);
        // Nanoseconds on the processor, of the thread that does all the work.
        let scheduled = fs::read_to_string(proc.join("schedstat")).unwrap_or_default();
        let on = scheduled.split(' ').next().and_then(|nanoseconds| nanoseconds.parse().ok());
        busy = on.map_or(busy, Duration::from_nanos);
        thread::sleep(Duration::from_millis(2));
    }
    Ok((peak, busy))
}

/// From the start of the process to the end of one verdict.
fn first_verdict(binary: &Path) -> Result<()> {
    let example = root().join("examples/etcd");
    let run = || {
        let start = Instant::now();
        let status = Command::new(binary).arg("check").arg(&example).stdout(Stdio::null()).status()?;
        ensure!(status.code() == Some(1), "the example is refused: {status}");
        Ok(start.elapsed())
    };
    let time = median((0..31).map(|_| run()).collect::<Result<_>>()?);
    println!(
        "check: {time:.1?} from the start to the end of one operator, with the compiled module kept (under 150 ms wanted)"
    );
    Ok(())
}
