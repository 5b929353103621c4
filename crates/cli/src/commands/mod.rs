//! One file for each command: its arguments, and the thin way from them to the library.

mod audit;
mod check;
mod cluster;
mod completion;
mod derive;
mod diff;
mod eval;
mod evaluation;
mod man;
pub(crate) mod plugin;
mod session;
mod settings;
mod upgrade_check;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Subcommand;

/// The exit code when something is not covered.
const NOT_COVERED: u8 = 1;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Check every object in files, directories and bundles before anything touches a cluster
    ///
    /// Each object is judged as the policy would judge it in the cluster once all the given files are applied. Exit code 0 if
    /// nothing is refused, 1 if something is, 2 if the verdict could not be determined.
    #[command(after_long_help = "Examples:
  operator-bounds check operators/ --cluster dump/
  operator-bounds check bundle.tar.gz --namespace team-a --cluster dump/ --output html --output-file report.html
  operator-bounds check deploy/ --output github
  operator-bounds check deploy/ --explain etcdoperator.v0.9.4
  kustomize build deploy/ | operator-bounds check -

To dump what the policy looks up:
  kubectl get -A -o yaml operatorgroups,csv,ns,sa > dump/olm.yaml       (OLM v1: clusterextensions,ns,sa)
  kubectl get -A -o yaml roles,rolebindings,clusterroles,clusterrolebindings > dump/rbac.yaml")]
    Check(check::Check),
    /// Show what bounds the operators of a cluster, what they hold, and what would bound those that nothing bounds
    ///
    /// Reads the cluster of the current context once and changes nothing; Kubewarden is not needed. Every proposed boundary has
    /// been judged by the policy. Exit code 0 if nothing was found, 1 if something is unbounded, exceeds its boundary or is
    /// cluster-admin in effect, 2 if something could not be read.
    #[command(after_long_help = "Examples:
  operator-bounds audit
  operator-bounds audit --context production --write proposed/ ; kubectl diff -f proposed/
  operator-bounds audit -n team-a --output json
  operator-bounds audit --output html --output-file audit.html
  operator-bounds audit --cluster dump/

To dump what it reads:
  kubectl get -A -o yaml operatorgroups,csv,ns,sa > dump/olm.yaml       (OLM v1: clusterextensions,ns,sa)
  kubectl get -A -o yaml roles,rolebindings,clusterroles,clusterrolebindings > dump/rbac.yaml
  kubectl get -n olmv1-system -l owner=operator-controller -o yaml secrets > dump/releases.yaml       (OLM v1)")]
    Audit(audit::Audit),
    /// Evaluate one admission request and print the AdmissionResponse as JSON
    ///
    /// Exit code 0 if the request was evaluated, whatever the verdict, and 2 if it could not be.
    #[command(after_long_help = "Examples:
  operator-bounds eval --request-path request.json --cluster manifests/
  operator-bounds eval --request-path - --settings-path s.yaml --cluster dump.yaml < review.json

To dump what the policy looks up:
  kubectl get -A -o yaml operatorgroups,csv,ns,sa > dump.yaml       (OLM v1: clusterextensions,ns,sa)
  kubectl get -A -o yaml roles,rolebindings,clusterroles,clusterrolebindings > rbac.yaml")]
    Eval(eval::Eval),
    /// Write a kwctl replay file with exactly the look-ups that an evaluation makes
    ///
    /// Exit code 0 if the request was evaluated, whatever the verdict, and 2 if it could not be.
    #[command(after_long_help = "Example:
  operator-bounds session --request-path request.json --cluster manifests/ --output session.yaml
  kwctl run --allow-context-aware --request-path request.json \\
    --replay-host-capabilities-interactions session.yaml annotated-policy.wasm")]
    Session(session::Session),
    /// Print the rules that are requested and not granted
    ///
    /// Both files hold Roles, ClusterRoles, ClusterServiceVersions, Lists of them, or a bare list of rules, as YAML or
    /// JSON. Exit code 0 if everything is covered, 1 if not, 2 if it could not be determined.
    #[command(after_long_help = "Examples:
  operator-bounds diff granted-role.yaml operator.clusterserviceversion.yaml
  operator-bounds diff --jsonl < pairs.jsonl     # one {\"owner\":[rules],\"requested\":[rules]} per line")]
    Diff(diff::Diff),
    /// Print the smallest RBAC that lets an operator install, ready to apply
    ///
    /// Covers everything the operator will hold, declared and implied, and everything that OLM does as the account or the
    /// synthetic user to install it, restricted to resource names where they are known.
    #[command(after_long_help = "Examples:
  operator-bounds derive etcd.clusterserviceversion.yaml --for serviceaccount team-a/installer | kubectl apply -f -
  operator-bounds derive bundle/ --for serviceaccount team-a/installer --target team-b --target team-c
  operator-bounds derive bundle.tar.gz --for serviceaccount team-a/installer --missing --cluster dump.yaml
  operator-bounds derive bundle/ --for serviceaccount team-a/installer --unused --context production
  operator-bounds derive bundle/ --for synthetic my-extension | kubectl apply -f -
  operator-bounds derive bundle/ extension.yaml --release 1.10 | kubectl apply -f -
  operator-bounds derive --extension demo --context production | kubectl apply -f -")]
    Derive(derive::Derive),
    /// Find the ClusterExtensions that block a move to another release of OLM v1
    ///
    /// For upgrades and downgrades: `spec.serviceAccount` was removed in some releases and is required in others. Exit code 0
    /// if nothing blocks the move, 1 if something does, 2 if something could not be read.
    #[command(after_long_help = "Examples:
  operator-bounds upgrade-check --from 1.10 --to 1.11 manifests/
  operator-bounds upgrade-check --to-crd clusterextensions.yaml --fix manifests/
  operator-bounds upgrade-check --to 4.20 --fix --service-account installer manifests/
  operator-bounds upgrade-check --to 1.11 --context production")]
    UpgradeCheck(upgrade_check::UpgradeCheck),
    /// Print the completion script of a shell
    #[command(after_long_help = "Examples:
  operator-bounds completion bash > ~/.local/share/bash-completion/completions/operator-bounds
  operator-bounds completion zsh > ~/.zfunc/_operator-bounds          # with ~/.zfunc in fpath, before compinit
  operator-bounds completion fish > ~/.config/fish/completions/operator-bounds.fish")]
    Completion(completion::Completion),
    /// Write the manual pages
    #[command(
        hide = true,
        after_long_help = "Example:
  operator-bounds man target/man && man target/man/operator-bounds-derive.1"
    )]
    Man(man::Man),
}

impl Command {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        match self {
            Command::Check(arguments) => check::run(arguments),
            Command::Audit(arguments) => audit::run(arguments),
            Command::Eval(arguments) => eval::run(arguments),
            Command::Session(arguments) => session::run(arguments),
            Command::Diff(arguments) => diff::run(arguments),
            Command::Derive(arguments) => derive::run(arguments),
            Command::UpgradeCheck(arguments) => upgrade_check::run(arguments),
            Command::Completion(arguments) => completion::run(arguments),
            Command::Man(arguments) => man::run(arguments),
        }
    }
}

/// Unlike `println!`, a closed pipe is an error here and not a crash.
fn print(text: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{text}")?;
    output.flush()
}
