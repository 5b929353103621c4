//! Workloads: the accounts that their pods run as.

use crate::olm::csv::{PodTemplate, account_of};
use crate::read::object::object;
use crate::read::text::Text;

object! {
    /// Any of the kinds that create pods.
    #[derive(Debug, Default)]
    pub(crate) struct Workload<'a> {
        spec: Spec<'a> = "spec",
    }
}

object! {
    #[derive(Debug, Default)]
    struct Spec<'a> {
        /// Of a Deployment, StatefulSet, DaemonSet, ReplicaSet or Job.
        template: PodTemplate<'a> = "template",
        /// Of a CronJob.
        job_template: JobTemplate<'a> = "jobTemplate",
        /// Of a Pod.
        service_account_name: Text<'a> = "serviceAccountName",
        /// Of a Pod, the deprecated alias.
        service_account: Text<'a> = "serviceAccount",
    }
}

object! {
    #[derive(Debug, Default)]
    struct JobTemplate<'a> {
        spec: JobSpec<'a> = "spec",
    }
}

object! {
    #[derive(Debug, Default)]
    struct JobSpec<'a> {
        template: PodTemplate<'a> = "template",
    }
}

/// Whether objects of this kind create pods.
#[must_use]
pub(crate) fn is_workload(group: &str, kind: &str) -> bool {
    matches!(
        (group, kind),
        ("", "Pod" | "ReplicationController")
            | ("apps", "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet")
            | ("batch", "Job" | "CronJob")
    )
}

impl Workload<'_> {
    /// The account that the pods of an object of this kind run as.
    #[must_use]
    pub(crate) fn account(&self, kind: &str) -> &str {
        let spec = &self.spec;
        match kind {
            "Pod" => account_of(&spec.service_account_name, &spec.service_account),
            "CronJob" => spec.job_template.spec.template.account(),
            _ => spec.template.account(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Workload;

    fn account(kind: &str, json: &str) -> String {
        serde_json::from_str::<Workload<'_>>(json).unwrap().account(kind).to_owned()
    }

    #[test]
    fn the_account_is_found_in_every_kind() {
        let pod = r#"{"spec":{"serviceAccountName":"sa"}}"#;
        let template = r#"{"spec":{"template":{"spec":{"serviceAccount":"sa"}}}}"#;
        let cron = r#"{"spec":{"jobTemplate":{"spec":{"template":{"spec":{"serviceAccountName":"sa"}}}}}}"#;
        assert_eq!(account("Pod", pod), "sa");
        for kind in ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "ReplicationController"] {
            assert_eq!(account(kind, template), "sa", "{kind}");
        }
        assert_eq!(account("CronJob", cron), "sa");
        assert_eq!(account("Deployment", "{}"), "default");
    }
}
