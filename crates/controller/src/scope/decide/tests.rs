//! Every rule in a table: what is written, what already exists, and what happens to the write.

use hyper::Method;
use serde_json::{Value, json};

use super::*;
use crate::scope::body;
use crate::scope::path::{Place, read};

const HELLO: &str = "hello";
const OTHER: &str = "other";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/r";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/hellos.example.com";
const EXTENSION: &str = "/apis/olm.operatorframework.io/v1/clusterextensions/hello";
const SECRETS: &str = "/api/v1/namespaces/olmv1-system/secrets";
const SECRET: &str = "/api/v1/namespaces/olmv1-system/secrets/s";

fn rules() -> Rules {
    Rules { system_namespace: "olmv1-system".to_owned(), exempt_definitions: true, large_releases: false }
}

fn labels(owner: &str) -> Value {
    json!({"olm.operatorframework.io/owner-kind": "ClusterExtension", "olm.operatorframework.io/owner-name": owner})
}

/// An object with this owner.
fn of(owner: &str) -> Value {
    json!({"metadata": {"name": "r", "labels": labels(owner)}, "rules": []})
}

/// An object without an owner.
fn plain() -> Value {
    json!({"metadata": {"name": "r", "labels": {"app": "x"}}, "rules": []})
}

fn hook() -> Value {
    let annotations = json!({"helm.sh/hook": "pre-install"});
    json!({"metadata": {"name": "r", "labels": labels(HELLO), "annotations": annotations}})
}

fn found(object: &Value) -> Live {
    Live::Found(Stored::read(object.to_string().as_bytes()).unwrap())
}

/// A request in short form: `POST path`; a PATCH is followed by `apply`, `merge`, `strategic` or `json`.
fn written(request: &str, body: &Value, known: &Known, rules: &Rules) -> Decision {
    let mut words = request.split(' ');
    let method: Method = words.next().unwrap().parse().unwrap();
    let (path, selector) = words.next().unwrap().split_once('?').map_or_else(
        || (request.split(' ').nth(1).unwrap(), None),
        |(path, selector)| (path, Some(selector.to_owned())),
    );
    let media_type = match words.next() {
        Some("apply") => "application/apply-patch+yaml",
        Some("merge") => "application/merge-patch+json",
        Some("strategic") => "application/strategic-merge-patch+json",
        Some("json") => "application/json-patch+json",
        _ => "application/json",
    };
    let Ok(Place::Object(target)) = read(path) else { panic!("{path}") };
    let verb = target.verb(&method, media_type == body::APPLY).unwrap();
    let said = body::read(verb, &target, media_type, body.to_string().as_bytes()).unwrap();
    decide(&Write { verb, target: &target, said, selector }, known, rules)
}

/// Decides with the stored object already looked up.
fn with(request: &str, body: &Value, live: Live) -> Decision {
    written(request, body, &Known { live, leads: Vec::new() }, &rules())
}

fn without(request: &str, body: &Value) -> Decision {
    with(request, body, Live::NotAsked)
}

fn as_hello() -> Decision {
    As(HELLO.to_owned())
}

fn refused(refusal: Refusal) -> Decision {
    Refused(refusal)
}

fn taken() -> Decision {
    refused(Refusal::Taken { before: OTHER.to_owned(), after: HELLO.to_owned() })
}

#[test]
fn what_is_created_is_created_as_its_owner() {
    assert_eq!(without(&format!("POST {ROLES}"), &of(HELLO)), as_hello());
    assert_eq!(without("POST /api/v1/namespaces/olmv1-system/configmaps", &of(HELLO)), as_hello());
    assert_eq!(without("POST /apis/example.com/v1/namespaces/a/things", &of(HELLO)), as_hello());
    assert_eq!(without("POST /api/v1/namespaces", &of(HELLO)), as_hello());
}

#[test]
fn what_belongs_to_nobody_is_refused() {
    let nobody = || refused(Refusal::Nobody);
    let name_alone = json!({"metadata": {"labels": {"olm.operatorframework.io/owner-name": HELLO}}});
    for body in [plain(), json!({}), json!({"metadata": null}), json!({"metadata": {"labels": null}}), name_alone] {
        assert_eq!(without(&format!("POST {ROLES}"), &body), nobody(), "{body}");
    }
    let merge = format!("PATCH {ROLE} merge");
    assert_eq!(with(&merge, &json!({"rules": []}), found(&plain())), nobody());
    assert_eq!(with(&format!("PUT {ROLE}"), &plain(), found(&plain())), nobody());
    assert_eq!(with(&format!("PUT {ROLE}"), &plain(), Live::Absent), nobody());
    assert_eq!(with(&format!("PATCH {ROLE} apply"), &plain(), Live::Absent), nobody());
    assert_eq!(with(&format!("DELETE {ROLE}"), &json!({}), found(&plain())), nobody());
}

#[test]
fn hooks_are_refused_whatever_their_labels_say() {
    let hooked = || refused(Refusal::Hook);
    for path in [ROLES, CRDS, SECRETS, "/apis/coordination.k8s.io/v1/namespaces/olmv1-system/leases", "/api/v1/events"]
    {
        assert_eq!(without(&format!("POST {path}"), &hook()), hooked(), "{path}");
    }
    for request in
        ["PUT", "PATCH"].map(|method| format!("{method} {ROLE} {}", if method == "PUT" { "" } else { "apply" }))
    {
        assert_eq!(without(request.trim(), &hook()), hooked(), "{request}");
    }
    let annotate = json!([{"op": "add", "path": "/metadata/annotations/helm.sh~1hook", "value": "post-install"}]);
    assert_eq!(without(&format!("PATCH {ROLE} json"), &annotate), hooked());
    assert_eq!(with(&format!("PATCH {ROLE} merge"), &json!({"rules": []}), found(&hook())), hooked());
    // Deleting one is allowed.
    assert_eq!(with(&format!("DELETE {ROLE}"), &json!({}), found(&hook())), Own);
}

#[test]
fn a_change_looks_at_the_object_first() {
    for request in [
        format!("PUT {ROLE}"),
        format!("PATCH {ROLE} merge"),
        format!("PATCH {ROLE} apply"),
        format!("DELETE {ROLE}"),
        format!("PATCH {CRD} merge"),
        format!("PATCH {SECRET} merge"),
        "POST /api/v1/namespaces/a/serviceaccounts/b/token".to_owned(),
        "PUT /apis/apps/v1/namespaces/a/deployments/b/scale".to_owned(),
    ] {
        assert_eq!(without(&request, &of(HELLO)), LookAtLive, "{request}");
    }
}

#[test]
fn a_change_of_what_is_there_needs_the_rights_of_its_owner_and_moves_it_to_nobody_else() {
    let label = |owner: &str| json!({"metadata": {"labels": labels(owner)}});
    let name_only = json!({"metadata": {"labels": {"olm.operatorframework.io/owner-name": HELLO}}});
    let rules_only = json!({"rules": []});
    let unlabel = json!({"metadata": {"labels": null}});
    let stripped = || refused(Refusal::Stripped(HELLO.to_owned()));
    let merge = format!("PATCH {ROLE} merge");
    for (request, body, live, expected) in [
        (&*merge, &rules_only, of(HELLO), as_hello()),
        (&merge, &label(HELLO), of(HELLO), as_hello()),
        (&merge, &label(HELLO), plain(), as_hello()),
        (&merge, &label(HELLO), of(OTHER), taken()),
        (&merge, &name_only, of(OTHER), taken()),
        (&merge, &unlabel, of(HELLO), stripped()),
        (&merge, &json!({"metadata": null}), of(HELLO), stripped()),
        (&format!("PATCH {ROLE} apply"), &of(HELLO), of(OTHER), taken()),
        (&format!("PATCH {ROLE} apply"), &of(HELLO), of(HELLO), as_hello()),
        (&format!("PUT {ROLE}"), &of(HELLO), of(HELLO), as_hello()),
        (&format!("PUT {ROLE}"), &of(HELLO), of(OTHER), taken()),
        (&format!("PUT {ROLE}"), &plain(), of(HELLO), stripped()),
        (&format!("PUT {ROLE}"), &of(HELLO), plain(), as_hello()),
    ] {
        assert_eq!(with(request, body, found(&live)), expected, "{request} {body} over {live}");
    }
}

#[test]
fn json_patches_count_label_by_label() {
    let name = "/metadata/labels/olm.operatorframework.io~1owner-name";
    let patch = format!("PATCH {ROLE} json");
    let stripped = || refused(Refusal::Stripped(HELLO.to_owned()));
    for (operations, live, expected) in [
        (json!([{"op": "replace", "path": "/rules", "value": []}]), of(HELLO), as_hello()),
        (json!([{"op": "replace", "path": name, "value": HELLO}]), of(OTHER), taken()),
        (json!([{"op": "test", "path": name, "value": OTHER}]), of(HELLO), as_hello()),
        (json!([{"op": "remove", "path": name}]), of(HELLO), stripped()),
        (json!([{"op": "remove", "path": "/metadata/labels"}]), of(HELLO), stripped()),
        (json!([{"op": "replace", "path": "/metadata/labels", "value": {"a": "b"}}]), of(HELLO), stripped()),
        (json!([{"op": "add", "path": "/metadata/labels", "value": labels(HELLO)}]), plain(), as_hello()),
        (json!([{"op": "add", "path": "/metadata/labels", "value": labels(HELLO)}]), of(OTHER), taken()),
        (
            json!([{"op": "remove", "path": "/metadata/labels"}, {"op": "add", "path": "/metadata/labels", "value": labels(HELLO)}]),
            of(OTHER),
            taken(),
        ),
        (json!([{"op": "move", "from": "/a", "path": "/b"}]), of(HELLO), as_hello()),
    ] {
        assert_eq!(with(&patch, &operations, found(&live)), expected, "{operations} over {live}");
    }
}

#[test]
fn what_is_not_there_is_not_changed_and_not_deleted() {
    assert_eq!(with(&format!("PATCH {ROLE} merge"), &of(HELLO), Live::Absent), Gone);
    assert_eq!(with(&format!("DELETE {ROLE}"), &json!({}), Live::Absent), Gone);
    assert_eq!(with("PUT /apis/apps/v1/namespaces/a/deployments/b/scale", &json!({}), Live::Absent), Gone);
    // Server-side apply creates it, and so does PUT for some kinds.
    assert_eq!(with(&format!("PATCH {ROLE} apply"), &of(HELLO), Live::Absent), as_hello());
    assert_eq!(with(&format!("PUT {ROLE}"), &of(HELLO), Live::Absent), as_hello());
}

#[test]
fn taking_away_what_an_extension_has_is_always_olms_own() {
    let delete = format!("DELETE {ROLE}");
    assert_eq!(with(&delete, &json!({}), found(&of("long-gone"))), Own);
    let of_a_set = json!({"metadata": {"labels": {
        "olm.operatorframework.io/owner-kind": "ClusterObjectSet", "olm.operatorframework.io/owner-name": "hello-1",
    }}});
    assert_eq!(with(&delete, &json!({}), found(&of_a_set)), Own);
    let odd = json!({"metadata": {"labels": {
        "olm.operatorframework.io/owner-kind": "Pod", "olm.operatorframework.io/owner-name": "x",
    }}});
    assert!(matches!(with(&delete, &json!({}), found(&odd)), Refused(Refusal::Odd(_))));
    for collection in [ROLES, "/api/v1/namespaces/a/secrets", "/api/v1/namespaces/a/pods"] {
        assert_eq!(without(&format!("DELETE {collection}"), &json!({})), refused(Refusal::Collection));
    }
}

#[test]
fn subresources_go_by_the_object_they_are_of() {
    for request in [
        "POST /api/v1/namespaces/a/serviceaccounts/b/token",
        "POST /api/v1/namespaces/a/pods/b/eviction",
        "PUT /apis/apps/v1/namespaces/a/deployments/b/scale",
        "PATCH /apis/apps/v1/namespaces/a/deployments/b/status merge",
    ] {
        assert_eq!(with(request, &of(OTHER), found(&of(HELLO))), as_hello(), "{request}");
        assert_eq!(with(request, &of(HELLO), found(&plain())), refused(Refusal::Nobody), "{request}");
    }
}

#[test]
fn definitions_stay_olms_unless_they_are_bounded() {
    let bounded = Rules { exempt_definitions: false, ..rules() };
    let patch = format!("PATCH {CRD} json");
    let schema = json!([{"op": "replace", "path": "/spec/versions", "value": []}]);
    let create = format!("POST {CRDS}");
    let both = |request: &str, body: &Value, live: fn() -> Live| {
        [&rules(), &bounded].map(|rules| written(request, body, &Known { live: live(), leads: Vec::new() }, rules))
    };
    assert_eq!(both(&create, &of(HELLO), || Live::NotAsked), [Own, as_hello()]);
    assert_eq!(both(&create, &plain(), || Live::NotAsked), [Own, refused(Refusal::Nobody)]);
    assert_eq!(both(&patch, &schema, || found(&of(HELLO))), [Own, as_hello()]);
    // What belongs to another extension cannot be taken over, and what has no owner is taken over with the extension's
    // own rights.
    assert_eq!(both(&format!("PATCH {CRD} merge"), &of(HELLO), || found(&of(OTHER))), [taken(), taken()]);
    assert_eq!(both(&format!("PATCH {CRD} merge"), &of(HELLO), || found(&plain())), [as_hello(), as_hello()]);
    assert_eq!(both(&patch, &schema, || found(&plain())), [refused(Refusal::Nobody), refused(Refusal::Nobody)]);
}

#[test]
fn of_extensions_and_catalogs_only_finalizers_and_status_are_olms() {
    let finalizers = json!({"metadata": {"finalizers": ["x"], "resourceVersion": "1"}});
    assert_eq!(without(&format!("PATCH {EXTENSION} merge"), &finalizers), Own);
    assert_eq!(without(&format!("PUT {EXTENSION}/status"), &plain()), Own);
    assert_eq!(without("PATCH /apis/olm.operatorframework.io/v1/clustercatalogs/c/status apply", &plain()), Own);
    let spec = json!({"spec": {"source": {}}});
    let spec_by_json = json!([{"op": "replace", "path": "/spec/namespace", "value": "x"}]);
    let nobody = || refused(Refusal::Nobody);
    assert_eq!(with(&format!("PATCH {EXTENSION} merge"), &spec, found(&plain())), nobody());
    assert_eq!(with(&format!("PATCH {EXTENSION} json"), &spec_by_json, found(&plain())), nobody());
    assert_eq!(with(&format!("PUT {EXTENSION}"), &json!({"spec": {}}), found(&plain())), nobody());
    assert_eq!(with(&format!("DELETE {EXTENSION}"), &json!({}), found(&plain())), nobody());
    assert_eq!(without("POST /apis/olm.operatorframework.io/v1/clusterextensions", &plain()), nobody());
    // Nor does it give one away.
    let given = json!({"metadata": {"labels": labels(HELLO)}});
    assert_eq!(with(&format!("PATCH {EXTENSION} merge"), &given, found(&plain())), as_hello());
}

#[test]
fn sets_of_objects_are_olms_and_those_that_a_bundle_brings_are_not() {
    let sets = "/apis/olm.operatorframework.io/v1/clusterobjectsets";
    let apply = format!("PATCH {sets}/hello-1 apply");
    let archive = json!({"spec": {"lifecycleState": "Archived"}});
    assert_eq!(with(&apply, &of(HELLO), Live::Absent), Own);
    assert_eq!(with(&apply, &of(HELLO), found(&of(HELLO))), Own);
    assert_eq!(with(&apply, &of(HELLO), found(&of(OTHER))), taken());
    assert_eq!(with(&format!("PATCH {sets}/hello-1 merge"), &archive, found(&of(HELLO))), Own);
    assert_eq!(with(&format!("PATCH {sets}/mine merge"), &archive, found(&plain())), refused(Refusal::Nobody));
    assert_eq!(without(&format!("PATCH {sets}/mine merge"), &json!({"metadata": {"finalizers": []}})), Own);
    assert_eq!(without(&format!("PUT {sets}/hello-1/status"), &of(HELLO)), Own);
    assert_eq!(with(&format!("DELETE {sets}/hello-1"), &json!({}), found(&of(HELLO))), Own);
    assert_eq!(without(&format!("POST {sets}"), &of(HELLO)), as_hello());
}

#[test]
fn leases_events_and_reviews_are_olms_by_verb() {
    let leases = "/apis/coordination.k8s.io/v1/namespaces/olmv1-system/leases";
    for request in [
        format!("POST {leases}"),
        format!("PUT {leases}/a"),
        "POST /api/v1/namespaces/default/events".to_owned(),
        "PATCH /apis/events.k8s.io/v1/namespaces/default/events/e merge".to_owned(),
        "POST /apis/authorization.k8s.io/v1/subjectaccessreviews".to_owned(),
        "POST /apis/authentication.k8s.io/v1/tokenreviews".to_owned(),
    ] {
        assert_eq!(without(&request, &plain()), Own, "{request}");
    }
    let nobody = || refused(Refusal::Nobody);
    assert_eq!(without("POST /apis/coordination.k8s.io/v1/namespaces/kube-system/leases", &plain()), nobody());
    assert_eq!(without("POST /apis/example.com/v1/reviews", &plain()), nobody());
    assert_eq!(with(&format!("DELETE {leases}/a"), &json!({}), found(&plain())), nobody());
    assert_eq!(with("DELETE /api/v1/namespaces/default/events/e", &json!({}), found(&plain())), nobody());
}

fn secret(kind: &str, labels: &Value) -> Value {
    json!({"metadata": {"name": "s", "labels": labels}, "type": kind})
}

#[test]
fn records_of_releases_are_olms_in_its_own_namespace() {
    let none = json!({"owner": "operator-controller"});
    let name = json!({"olm.operatorframework.io/owner-name": HELLO});
    let chunk = secret("operatorframework.io/chunk.v1", &none);
    let data = secret("olm.operatorframework.io/object-data", &name);
    let index = secret("operatorframework.io/index.v1", &none);
    assert_eq!(without(&format!("POST {SECRETS}"), &chunk), Own);
    assert_eq!(without(&format!("POST {SECRETS}"), &data), Own);
    assert_eq!(without(&format!("PUT {SECRET}"), &index), Own);
    assert_eq!(
        with(&format!("PATCH {SECRET} merge"), &json!({"metadata": {"ownerReferences": []}}), found(&data)),
        Own
    );
    assert_eq!(without(&format!("DELETE {SECRETS}?key=a,owner=operator-controller"), &json!({})), Own);
    assert_eq!(without(&format!("DELETE {SECRETS}?key=a,owner=operator-controller,type=chunk"), &json!({})), Own);

    let nobody = || refused(Refusal::Nobody);
    for body in [&chunk, &data, &index] {
        assert_eq!(without("POST /api/v1/namespaces/a/secrets", body), nobody(), "{body}");
    }
    assert_eq!(without(&format!("POST {SECRETS}"), &secret("Opaque", &none)), nobody());
    assert_eq!(without(&format!("POST {SECRETS}"), &secret("olm.operatorframework.io/object-data", &none)), nobody());
    assert_eq!(with(&format!("PATCH {SECRET} merge"), &json!({"data": {}}), found(&plain())), nobody());
    assert_eq!(with(&format!("DELETE {SECRET}"), &json!({}), found(&chunk)), nobody());
    for selector in ["", "?owner=operator-controller", "?key=a", "?owner!=operator-controller,key=a", "?owner=me,key=a"]
    {
        assert_eq!(
            without(&format!("DELETE {SECRETS}{selector}"), &json!({})),
            refused(Refusal::Collection),
            "{selector}"
        );
    }
    // What a bundle brings into OLM's namespace has both labels, and belongs to the extension.
    assert_eq!(
        without(&format!("POST {SECRETS}"), &secret("operatorframework.io/index.v1", &labels(HELLO))),
        as_hello()
    );
    assert_eq!(
        without(&format!("POST {SECRETS}"), &secret("olm.operatorframework.io/object-data", &labels(HELLO))),
        as_hello()
    );
    assert_eq!(with(&format!("PATCH {SECRET} merge"), &json!({"data": {}}), found(&of(HELLO))), as_hello());
}

#[test]
fn a_release_is_looked_through_before_anything_is_written() {
    let decided = |release: Option<Release>, rules: &Rules| {
        let Ok(Place::Object(target)) = read(SECRETS) else { panic!() };
        let said = Said { secret_type: Some(INDEX.to_owned()), release, ..Said::default() };
        decide(&Write { verb: Verb::Create, target: &target, said, selector: None }, &Known::default(), rules)
    };
    let object_by_object = Rules { large_releases: true, ..rules() };
    let hooks = || Release::Hooks("x".to_owned(), "a Job".to_owned());
    assert_eq!(decided(Some(Release::Plain), &rules()), Own);
    assert_eq!(decided(Some(Release::Large), &rules()), refused(Refusal::LargeRelease));
    assert_eq!(decided(Some(Release::Large), &object_by_object), Own);
    for rules in [rules(), object_by_object] {
        let refusal = Refusal::Hooks("x".to_owned(), "a Job".to_owned());
        assert_eq!(decided(Some(hooks()), &rules), refused(refusal));
        let broken = || "broken".to_owned();
        let refusal = Refusal::UnreadableRelease(broken());
        assert_eq!(decided(Some(Release::Unreadable(broken())), &rules), refused(refusal));
    }
}

#[test]
fn a_set_leads_to_its_extension() {
    let of_set = |name: &str| {
        json!({"metadata": {"labels": {
            "olm.operatorframework.io/owner-kind": "ClusterObjectSet", "olm.operatorframework.io/owner-name": name,
        }}})
    };
    let set = |name: &str| Set { resource: "clusterobjectsets", name: name.to_owned() };
    let create = format!("POST {ROLES}");
    assert_eq!(without(&create, &of_set("hello-1")), LookAtSet(set("hello-1")));
    let leads = |all: &[(&str, &str)]| all.iter().map(|(name, to)| (set(name), Ok((*to).to_owned()))).collect();
    let known = Known { live: Live::NotAsked, leads: leads(&[("hello-1", HELLO)]) };
    assert_eq!(written(&create, &of_set("hello-1"), &known, &rules()), as_hello());
    let leaderless = Refusal::Leaderless("hello-1".to_owned(), "it does not exist");
    let known = Known { live: Live::NotAsked, leads: vec![(set("hello-1"), Err(leaderless.clone()))] };
    assert_eq!(written(&create, &of_set("hello-1"), &known, &rules()), refused(leaderless));

    // From one revision of an extension to the next, an object stays with the extension.
    let apply = format!("PATCH {ROLE} apply");
    let live = || found(&of_set("hello-1"));
    let known = Known { live: live(), leads: leads(&[("hello-1", HELLO)]) };
    assert_eq!(written(&apply, &of_set("hello-2"), &known, &rules()), LookAtSet(set("hello-2")));
    let known = Known { live: live(), leads: leads(&[("hello-1", HELLO), ("hello-2", HELLO)]) };
    assert_eq!(written(&apply, &of_set("hello-2"), &known, &rules()), as_hello());
    let known = Known { live: live(), leads: leads(&[("hello-1", OTHER), ("hello-2", HELLO)]) };
    assert_eq!(written(&apply, &of_set("hello-2"), &known, &rules()), taken());
}

#[test]
fn owners_that_olm_does_not_write_are_refused_and_said() {
    let odd = |kind: &str, name: &str| {
        let labels = json!({"olm.operatorframework.io/owner-kind": kind, "olm.operatorframework.io/owner-name": name});
        without(&format!("POST {ROLES}"), &json!({"metadata": {"labels": labels}}))
    };
    for (kind, name) in [("Namespace", HELLO), ("ClusterExtension", "system:masters"), ("ClusterExtension", "a\nb")] {
        assert!(matches!(odd(kind, name), Refused(Refusal::Odd(_))), "{kind} {name}");
    }
    assert!(matches!(without(&format!("POST {CRDS}"), &of("A B")), Refused(Refusal::Odd(_))));
}
