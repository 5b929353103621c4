//! Who we are at a registry: what `docker login` left behind, credential helpers included.

use std::env;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use docker_credential::{CredentialRetrievalError, DockerCredential};
use oci_client::secrets::RegistryAuth;

use crate::Error;

/// A login, or none, and words about it for when the registry does not like it.
#[derive(Debug, Clone)]
pub(crate) struct Login {
    pub(crate) auth: RegistryAuth,
    pub(crate) said: String,
}

impl Login {
    /// The login that the docker configuration has for this registry. No file and no entry mean none; a file that
    /// cannot be read is an error, because going on without a login would only fail later and less clearly.
    pub(crate) fn find(registry: &str, docker_config: Option<&Path>) -> Result<Self, Error> {
        let Some(path) =
            docker_config.map(Path::to_owned).or_else(default_directory).map(|dir| dir.join("config.json"))
        else {
            return Ok(Login::none("neither DOCKER_CONFIG nor HOME is set to find a login".to_owned()));
        };
        let unreadable = |reason: String| Error::Credentials {
            path: path.display().to_string(),
            reason,
            registry: registry.to_owned(),
        };
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(Login::none(format!("no login was used because there is no {}", path.display())));
            }
            Err(error) => return Err(unreadable(error.to_string())),
        };
        match docker_credential::get_credential_from_reader(file, registry) {
            Ok(DockerCredential::UsernamePassword(user, password)) => {
                let said = format!("logged in as `{user}`, from {}", path.display());
                Ok(Login { auth: RegistryAuth::Basic(user, password), said })
            }
            Ok(DockerCredential::IdentityToken(_)) => Err(unreadable(
                "the login is an identity token, which is not supported: use a user and a token".to_owned(),
            )),
            Err(error) if is_none(&error) => {
                Ok(Login::none(format!("no login was used because {} has none for it", path.display())))
            }
            Err(CredentialRetrievalError::ConfigReadError) => {
                Err(unreadable("not the JSON of a docker configuration".to_owned()))
            }
            Err(error) => Err(unreadable(error.to_string().trim().to_owned())),
        }
    }

    fn none(said: String) -> Self {
        Login { auth: RegistryAuth::Anonymous, said }
    }
}

fn default_directory() -> Option<PathBuf> {
    let home = || env::home_dir().map(|home| home.join(".docker"));
    env::var_os("DOCKER_CONFIG").map(PathBuf::from).or_else(home)
}

/// Whether there simply is no login. Docker's helpers say so on their output, with a code that also means trouble.
fn is_none(error: &CredentialRetrievalError) -> bool {
    match error {
        CredentialRetrievalError::NoCredentialConfigured => true,
        CredentialRetrievalError::HelperFailure { stdout, .. } => stdout.contains("credentials not found"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(config: &str) -> Result<Login, Error> {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("config.json"), config).unwrap();
        Login::find("registry.example.com:5000", Some(directory.path()))
    }

    #[test]
    fn the_login_of_the_registry_is_found() {
        let found = login(r#"{"auths": {"registry.example.com:5000": {"auth": "bWU6c2VjcmV0OndvcmQ="}}}"#).unwrap();
        assert_eq!(found.auth, RegistryAuth::Basic("me".to_owned(), "secret:word".to_owned()));
        assert!(found.said.starts_with("logged in as `me`, from /"), "{}", found.said);
    }

    #[test]
    fn another_registrys_login_is_not_used() {
        let found = login(r#"{"auths": {"other.example.com": {"auth": "bWU6c2VjcmV0"}}}"#).unwrap();
        assert_eq!(found.auth, RegistryAuth::Anonymous);
        assert!(found.said.ends_with("config.json has none for it"), "{}", found.said);
    }

    #[test]
    fn no_file_is_no_login() {
        let directory = tempfile::tempdir().unwrap();
        let found = Login::find("registry.example.com", Some(directory.path())).unwrap();
        assert_eq!(found.auth, RegistryAuth::Anonymous);
    }

    #[test]
    fn a_broken_file_is_an_error_that_names_it() {
        let error = login("{").unwrap_err().to_string();
        assert!(error.contains("config.json: not the JSON of a docker configuration"), "{error}");
        let error = login(r#"{"auths": {"registry.example.com:5000": {"auth": "%%%"}}}"#).unwrap_err().to_string();
        assert!(error.contains("config.json: Unable to decode credential"), "{error}");
    }

    #[test]
    fn a_helper_that_is_not_installed_is_an_error() {
        let error = login(r#"{"credHelpers": {"registry.example.com:5000": "not-there"}}"#).unwrap_err().to_string();
        assert!(error.contains("credential helper"), "{error}");
    }
}
