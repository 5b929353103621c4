//! `check`: a verdict for each object of files, directories, archives and bundles, before anything touches a cluster.
//!
//! Data flow: [`Inputs`] finds the files → [`given`] reads them once: what is wrong, and the cluster as it would be with
//! them applied → each object again, to [`verdict`] → a [`report`], written as the verdicts come.

mod bundle;
pub mod explain;
pub mod explanation;
pub mod github;
mod given;
pub mod html;
pub mod json;
pub mod junit;
pub mod objects;
pub mod places;
mod progress;
pub mod report;
pub mod sarif;
pub mod table;
pub mod verdict;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::documents::{self, FileError};
use crate::input::{FileRead, Inputs};
use crate::manifests::Manifests;
use crate::policy::Policy;

use bundle::Bundles;
use given::Given;
use objects::{Name, Object};
use places::Places;
use progress::Progress;
use report::{Emitter, Summary};
use verdict::{Candidate, Detail, Finding, Judge, Sender};

/// What is to be checked, and how.
#[derive(Debug, Default)]
pub struct Check {
    /// Files, directories, archives, `-`.
    pub inputs: Vec<PathBuf>,
    /// The cluster; the given files are put over it.
    pub cluster: Manifests,
    /// Nothing in the given files counts as granted.
    pub cluster_only: bool,
    /// Where objects go that say no namespace, and bundles.
    pub namespace: Option<String>,
    /// Who sends the objects.
    pub sender: Sender,
    /// Whether what can be read is judged although something cannot.
    pub keep_going: bool,
    /// Judge only the object that is meant by this.
    pub only: Option<String>,
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// Some of the input cannot be read.
    #[error("{} cannot be read, so nothing was checked; use --keep-going to check the rest", report::counted(.0.len(), "input"))]
    Problems(Vec<FileError>),
    /// There is no such object.
    #[error("none of the judged objects is named {0}")]
    NoSuchObject(String),
    /// The report cannot be written.
    #[error("the report cannot be written: {0}")]
    Output(#[from] io::Error),
}

/// Judges everything, and hands each verdict to the emitter as it comes.
pub fn run(
    check: Check,
    policy: &Policy,
    settings: &RawValue,
    detail: Detail,
    emitter: &mut dyn Emitter,
    out: &mut dyn Write,
) -> Result<Summary, CheckError> {
    let mut problems = Vec::new();
    let inputs = Inputs::find(&check.inputs, &mut problems);
    let mut given = Given::read(&inputs, problems);
    if check.cluster_only {
        given.forget();
    }
    let (cluster, namespace) = given.over(check.cluster, check.namespace.as_deref());
    if !given.problems.is_empty() && !check.keep_going {
        return Err(CheckError::Problems(given.problems));
    }
    emitter.start(out)?;
    let mut run = Run {
        judge: Judge {
            policy,
            settings,
            cluster: Arc::new(cluster),
            sender: check.sender,
            namespace,
            told: check.namespace.is_some(),
            detail,
        },
        only: check.only.as_deref(),
        bundles: &given.bundles,
        brought: BTreeMap::new(),
        progress: Progress::new(given.judged),
        summary: Summary { files: given.files, problems: given.problems, ..Summary::default() },
        emitter,
        out,
    };
    let mut outcome = Ok(());
    inputs.each(&mut |read| {
        if outcome.is_ok() {
            outcome = run.file(read);
        }
    });
    outcome?;
    run.bundled()?;
    run.finish()
}

/// The second reading.
struct Run<'r> {
    judge: Judge<'r>,
    only: Option<&'r str>,
    bundles: &'r Bundles,
    /// What each bundle brings, by where its manifests are.
    brought: BTreeMap<PathBuf, Brought>,
    progress: Progress,
    summary: Summary,
    emitter: &'r mut dyn Emitter,
    out: &'r mut dyn Write,
}

/// The RBAC of a bundle, and the operator it is for.
#[derive(Default)]
struct Brought {
    operator: String,
    rbac: Vec<Value>,
    file: PathBuf,
}

impl Run<'_> {
    fn file(&mut self, read: FileRead) -> Result<(), CheckError> {
        let text_of = |(path, bytes): (PathBuf, Vec<u8>)| {
            let objects = objects::read(&path, &bytes)?;
            Ok((path, bytes, objects))
        };
        match read.and_then(text_of) {
            Ok((path, bytes, objects)) => {
                let text = documents::text(&path, &bytes).unwrap_or_default();
                let places = Places::new(text, &objects);
                objects.into_iter().try_for_each(|object| self.object(object, &path, &places))
            }
            Err(error) => {
                // Most of these are known from the first reading; a file may have gone since.
                if !self.summary.problems.iter().any(|known| known.path == error.path) {
                    self.summary.problems.push(error);
                }
                Ok(())
            }
        }
    }

    fn object(&mut self, object: Object, path: &Path, places: &Places<'_>) -> Result<(), CheckError> {
        let Some(judged) = object.judged() else { return Ok(()) };
        let mut name = object.name();
        let bundle = self.bundles.of(path);
        let goes_anywhere = bundle.is_some() || (self.judge.told && object.is_candidate());
        if judged.namespaced && (name.namespace.is_empty() || goes_anywhere) {
            name.namespace.clone_from(&self.judge.namespace);
        }
        if let Some(bundle) = bundle {
            let brought = self.brought.entry(bundle.to_owned()).or_default();
            if judged.group == bounds::rbac::RBAC {
                // A bundle's RBAC is judged together, when all of it is known.
                brought.rbac.push(object.value);
                path.clone_into(&mut brought.file);
                return Ok(());
            }
            brought.operator.clone_from(&name.name);
        }
        if self.only.is_some_and(|only| !name.is_meant_by(only)) {
            return Ok(());
        }
        let finding = self.judge.judge(Candidate { object, judged, name, file: path, places });
        self.tell(&finding)
    }

    /// The RBAC of the bundles, each as the plan that OLM would make of it.
    fn bundled(&mut self) -> Result<(), CheckError> {
        for brought in std::mem::take(&mut self.brought).into_values().filter(|brought| !brought.rbac.is_empty()) {
            let value = bundle::plan(&self.judge.namespace, &brought.operator, &brought.rbac);
            let object = Object { value, document: 0, way: Vec::new() };
            let Some(judged) = object.judged() else { continue };
            let name: Name = object.name();
            if self.only.is_some_and(|only| !name.is_meant_by(only)) {
                continue;
            }
            let places = Places::new("", &[]);
            let finding = self.judge.judge(Candidate { object, judged, name, file: &brought.file, places: &places });
            self.tell(&finding)?;
        }
        Ok(())
    }

    fn tell(&mut self, finding: &Finding) -> Result<(), CheckError> {
        *self.summary.counts.entry(finding.status).or_default() += 1;
        self.emitter.finding(self.out, finding)?;
        self.progress.step();
        Ok(())
    }

    fn finish(self) -> Result<Summary, CheckError> {
        if let (Some(only), 0) = (self.only, self.summary.objects()) {
            return Err(CheckError::NoSuchObject(only.to_owned()));
        }
        self.emitter.finish(self.out, &self.summary)?;
        self.out.flush()?;
        Ok(self.summary)
    }
}
