//! What people are told, in the places where they look: the plan, its Subscriptions and its group.

use bounds::decide::message::clean;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client};

use super::olm::{INSTALL_PLANS, Kind, Meta, OPERATOR_GROUPS, SUBSCRIPTIONS, Subscription};
use crate::NAME;

/// The annotation with the full reason why a plan waits.
pub(super) const WAITS: &str = "operator-bounds/waits-because";
/// The longest message that the API server accepts in an Event.
const LONGEST: usize = 1024;

/// What has happened to a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum News {
    Approved,
    Waits,
}

impl News {
    fn reason(self) -> (&'static str, &'static str) {
        match self {
            News::Approved => ("Normal", "InstallPlanApproved"),
            News::Waits => ("Warning", "InstallPlanWaits"),
        }
    }
}

/// Writes an Event on the plan, on each Subscription that it is for and on the groups of the namespace. If one cannot
/// be written, that is no reason to stop: the annotation on the plan says the same.
pub(super) async fn tell(
    client: &Client,
    namespace: &str,
    plan: &Meta,
    subscriptions: &[&Subscription],
    groups: &[Meta],
    news: News,
    message: &str,
) {
    let mut about = vec![(INSTALL_PLANS, plan)];
    about.extend(subscriptions.iter().map(|subscription| (SUBSCRIPTIONS, &subscription.metadata)));
    about.extend(groups.iter().map(|group| (OPERATOR_GROUPS, group)));
    let events: Api<Event> = Api::namespaced(client.clone(), namespace);
    for (kind, object) in about {
        let event = event(namespace, kind, object, news, message, &plan.name);
        if let Err(error) = events.create(&PostParams::default(), &event).await {
            tracing::warn!(namespace, kind = kind.name, name = object.name, %error, "an Event could not be written");
        }
    }
}

fn event(namespace: &str, kind: Kind, object: &Meta, news: News, message: &str, plan: &str) -> Event {
    let (type_, reason) = news.reason();
    let now = Timestamp::now();
    Event {
        metadata: ObjectMeta {
            namespace: Some(namespace.to_owned()),
            generate_name: Some(format!("{}.", object.name)),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some(format!("{}/{}", kind.group, kind.version)),
            kind: Some(kind.name.to_owned()),
            namespace: Some(namespace.to_owned()),
            name: Some(object.name.clone()),
            uid: Some(object.uid.clone()).filter(|uid| !uid.is_empty()),
            ..ObjectReference::default()
        },
        type_: Some(type_.to_owned()),
        reason: Some(reason.to_owned()),
        message: Some(clipped(message, plan)),
        source: Some(EventSource { component: Some(NAME.to_owned()), host: None }),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        count: Some(1),
        ..Event::default()
    }
}

/// As much as fits, and where to find the rest.
fn clipped(message: &str, plan: &str) -> String {
    if message.len() <= LONGEST {
        return message.to_owned();
    }
    let rest = format!("… (all of it is in the annotation {WAITS} of InstallPlan {})", clean(plan));
    let mut end = LONGEST.saturating_sub(rest.len());
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{rest}", &message[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_says_where_the_rest_is() {
        let text = clipped(&"ä".repeat(3000), "install-abc");
        assert!(text.len() <= LONGEST && text.ends_with("of InstallPlan install-abc)"), "{text}");
        assert_eq!(clipped("short", "x"), "short");
    }
}
