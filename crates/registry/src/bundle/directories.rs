//! Where in the image the manifests are. The image's labels say it, and so does `annotations.yaml`: OLM v0 goes by the
//! one, tools by the other, and OLM v1 by neither. They have to agree.

use serde::Deserialize;

use super::File;
use super::layer::normal;
use super::tree::Tree;

const ANNOTATIONS: &str = "annotations.yaml";

/// What an image, or a file in it, says about the bundle.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Labels {
    #[serde(rename = "operators.operatorframework.io.bundle.manifests.v1")]
    manifests: Option<String>,
    #[serde(rename = "operators.operatorframework.io.bundle.metadata.v1")]
    metadata: Option<String>,
    #[serde(rename = "operators.operatorframework.io.bundle.mediatype.v1")]
    media_type: Option<String>,
}

impl Labels {
    /// The labels in an image's configuration.
    pub(crate) fn of_image(config: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Image {
            #[serde(default)]
            config: Option<Config>,
        }
        #[derive(Deserialize)]
        struct Config {
            #[serde(default, rename = "Labels")]
            labels: Option<Labels>,
        }
        let image: Image =
            serde_json::from_slice(config).map_err(|error| format!("the image's configuration: {error}"))?;
        Ok(image.config.and_then(|config| config.labels).unwrap_or_default())
    }

    fn of_file(path: &str, content: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Annotations {
            #[serde(default)]
            annotations: Option<Labels>,
        }
        let said = |reason: String| format!("`{path}`: {reason}");
        let text = str::from_utf8(content).map_err(|error| said(error.to_string()))?;
        let options = serde_saphyr::options! { with_snippet: false };
        let file: Annotations =
            serde_saphyr::from_str_with_options(text, options).map_err(|error| said(error.to_string()))?;
        Ok(file.annotations.unwrap_or_default())
    }

    fn check_media_type(&self) -> Result<(), String> {
        match self.media_type.as_deref() {
            None | Some("registry+v1") => Ok(()),
            Some(other) => Err(format!("its type is {other}, and only registry+v1 is supported")),
        }
    }
}

/// The path that a label names.
fn directory(named: Option<&str>) -> Result<Option<String>, String> {
    let Some(named) = named else { return Ok(None) };
    let path = normal(named.as_bytes()).map_err(|error| format!("the directory {error}"))?;
    path.ok_or_else(|| format!("the directory `{named}` is the whole image")).map(Some)
}

/// The directories that make up the bundle.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Directories {
    manifests: String,
    metadata: String,
}

impl Directories {
    pub(crate) fn find(labels: &Labels, tree: &Tree) -> Result<Self, String> {
        labels.check_media_type()?;
        let metadata = directory(labels.metadata.as_deref())?.unwrap_or_else(|| "metadata".to_owned());
        let mut manifests = directory(labels.manifests.as_deref())?.map(|path| (path, "the image's labels".to_owned()));
        // OLM v0 takes the last of these files that it finds, wherever it is.
        for (path, content) in tree.named(ANNOTATIONS) {
            let annotations = Labels::of_file(path, content)?;
            annotations.check_media_type()?;
            let Some(said) = directory(annotations.manifests.as_deref())? else { continue };
            match &manifests {
                Some((other, whose)) if *other != said => {
                    return Err(format!("the manifests are in `{other}` by {whose}, and in `{said}` by `{path}`"));
                }
                _ => manifests = Some((said, format!("`{path}`"))),
            }
        }
        let manifests = manifests.map_or_else(|| "manifests".to_owned(), |(directory, _)| directory);
        // OLM v1 looks nowhere else.
        if manifests != "manifests" && tree.has("manifests") {
            return Err(format!(
                "the manifests are declared to be in `{manifests}`, but there is also a directory `manifests`"
            ));
        }
        Ok(Directories { manifests, metadata })
    }

    /// The files of the bundle, under the names that the directories usually have.
    pub(crate) fn files(&self, tree: &mut Tree) -> Result<Vec<File>, String> {
        let mut files = Vec::new();
        for (usual, directory) in [("manifests", &self.manifests), ("metadata", &self.metadata)] {
            let found = tree.take(directory)?;
            files.extend(found.into_iter().map(|(path, content)| (format!("{usual}/{path}"), content)));
        }
        if files.iter().any(|(path, _)| path.starts_with("manifests/")) {
            Ok(files)
        } else {
            Err(format!("`{}` is empty: not an operator bundle", self.manifests))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bundle::layer::{Layer, Node};

    fn labels() -> Labels {
        Labels::default()
    }

    fn manifests_label(directory: &str) -> Labels {
        Labels { manifests: Some(directory.to_owned()), ..Labels::default() }
    }

    fn tree(files: &[(&str, &str)]) -> Tree {
        let added = files.iter().map(|(path, text)| ((*path).to_owned(), Node::File(text.as_bytes().to_vec())));
        let mut tree = Tree::default();
        tree.apply(Layer { removed: Vec::new(), added: added.collect() }).unwrap();
        tree
    }

    fn manifests_of(labels: &Labels, tree: &Tree) -> Result<String, String> {
        Directories::find(labels, tree).map(|directories| directories.manifests)
    }

    const SAYS_DEPLOY: &str = "annotations: {operators.operatorframework.io.bundle.manifests.v1: deploy/, other: true}";

    #[test]
    fn labels_and_annotations_name_the_directory_and_otherwise_it_is_the_usual_one() {
        assert_eq!(manifests_of(&labels(), &tree(&[])).unwrap(), "manifests");
        assert_eq!(manifests_of(&manifests_label("/deploy/"), &tree(&[])).unwrap(), "deploy");
        let said = tree(&[("metadata/annotations.yaml", SAYS_DEPLOY)]);
        assert_eq!(manifests_of(&labels(), &said).unwrap(), "deploy");
        assert_eq!(manifests_of(&manifests_label("deploy"), &said).unwrap(), "deploy");
    }

    #[test]
    fn labels_and_annotations_that_disagree_are_refused() {
        let said = tree(&[("metadata/annotations.yaml", SAYS_DEPLOY)]);
        let error = manifests_of(&manifests_label("manifests/"), &said).unwrap_err();
        assert_eq!(
            error,
            "the manifests are in `manifests` by the image's labels, and in `deploy` by `metadata/annotations.yaml`"
        );
    }

    #[test]
    fn a_second_annotations_file_elsewhere_cannot_lead_olm_astray() {
        let harmless = "annotations: {operators.operatorframework.io.bundle.manifests.v1: manifests/}";
        let said = tree(&[("metadata/annotations.yaml", harmless), ("z/annotations.yaml", SAYS_DEPLOY)]);
        assert!(manifests_of(&labels(), &said).unwrap_err().contains("in `deploy` by `z/annotations.yaml`"));
    }

    #[test]
    fn another_directory_beside_the_usual_one_is_refused() {
        let said = tree(&[("metadata/annotations.yaml", SAYS_DEPLOY), ("manifests/csv.yaml", "")]);
        assert!(manifests_of(&labels(), &said).unwrap_err().ends_with("there is also a directory `manifests`"));
    }

    #[test]
    fn a_directory_outside_the_image_or_the_whole_image_is_refused() {
        assert!(
            manifests_of(&manifests_label("../x"), &tree(&[])).unwrap_err().contains("points outside of the image")
        );
        assert!(manifests_of(&manifests_label("/"), &tree(&[])).unwrap_err().contains("is the whole image"));
    }

    #[test]
    fn only_registry_v1_is_read() {
        let error =
            manifests_of(&Labels { media_type: Some("plain+v0".to_owned()), ..labels() }, &tree(&[])).unwrap_err();
        assert_eq!(error, "its type is plain+v0, and only registry+v1 is supported");
    }

    #[test]
    fn broken_annotations_are_refused_with_their_name() {
        let error = manifests_of(&labels(), &tree(&[("metadata/annotations.yaml", "annotations: [")])).unwrap_err();
        assert!(error.starts_with("`metadata/annotations.yaml`: "), "{error}");
    }

    #[test]
    fn the_files_get_the_usual_names() {
        let mut image = tree(&[("deploy/csv.yaml", "csv"), ("about/annotations.yaml", SAYS_DEPLOY), ("tests/x", "")]);
        let directories =
            Directories::find(&Labels { metadata: Some("about/".to_owned()), ..labels() }, &image).unwrap();
        let paths: Vec<_> = directories.files(&mut image).unwrap().into_iter().map(|(path, _)| path).collect();
        assert_eq!(paths, ["manifests/csv.yaml", "metadata/annotations.yaml"]);
    }

    #[test]
    fn an_image_without_manifests_is_no_bundle() {
        let mut image = tree(&[("bin/sh", "")]);
        let error = Directories::find(&labels(), &image).unwrap().files(&mut image).unwrap_err();
        assert_eq!(error, "`manifests` is empty: not an operator bundle");
    }
}
