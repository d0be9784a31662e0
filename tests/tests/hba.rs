//! Rules of who may connect: addresses, users, methods, TLS and certificates of clients, as psql meets them.

use crate::process::Server;
use crate::trial;
use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

pub fn trials() -> Vec<Trial> {
    vec![trial("hba::rules", rules), trial("hba::wrong_files", wrong_files)]
}

/// Runs a program to its end, which must be a good one.
fn run(program: &str, args: &[&str], directory: &Path) -> Result<()> {
    let output = Command::new(program).args(args).current_dir(directory).output()?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} {args:?}: {told}");
    Ok(())
}

/// An authority's certificate `NAME.crt` with its key `NAME.key`.
fn authority(name: &str, directory: &Path) -> Result<()> {
    let (key, certificate, subject) = (format!("{name}.key"), format!("{name}.crt"), format!("/CN={name}"));
    let what = [
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ];
    let made = ["-days", "2", "-keyout", &key, "-out", &certificate, "-subj", &subject];
    run("openssl", &[&what[..], &made].concat(), directory)
}

/// A certificate of somebody that an authority has signed.
fn signed(name: &str, by: &str, directory: &Path) -> Result<()> {
    let file = |end: &str| format!("{name}.{end}");
    let (key, request, certificate) = (file("key"), file("csr"), file("crt"));
    let subject = format!("/O=Tenon/CN={name}");
    let what = [
        "req",
        "-new",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ];
    let made = ["-keyout", &key, "-out", &request, "-subj", &subject];
    run("openssl", &[&what[..], &made].concat(), directory)?;
    let (by_certificate, by_key) = (format!("{by}.crt"), format!("{by}.key"));
    // Of version 3, which is what the verifier takes.
    std::fs::write(directory.join("extensions"), "basicConstraints = CA:FALSE\n")?;
    let sign = [
        "x509",
        "-req",
        "-in",
        &request,
        "-CA",
        &by_certificate,
        "-CAkey",
        &by_key,
    ];
    let made = [
        "-CAcreateserial",
        "-days",
        "2",
        "-out",
        &certificate,
        "-extfile",
        "extensions",
    ];
    run("openssl", &[&sign[..], &made].concat(), directory)
}

/// Files for a server, and what to start it with.
struct Files(TempDir);

impl Files {
    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        std::fs::write(self.path(name), text).with_context(|| name.to_string())
    }

    fn args(&self) -> Vec<String> {
        let given = [
            ("--hba-file", "hba"),
            ("--password-file", "passwords"),
            ("--tls-cert", "server.crt"),
            ("--tls-key", "server.key"),
            ("--tls-client-ca", "authority.crt"),
        ];
        let shown = |name| self.path(name).display().to_string();
        given
            .into_iter()
            .flat_map(|(option, name)| [option.to_string(), shown(name)])
            .collect()
    }

    /// What psql is told: who one is, or why not.
    fn psql(&self, server: &Server, how: &str, password: &str) -> Result<String> {
        self.psql_of(server, how, password, "SELECT session_user")
    }

    /// What psql is told of a statement.
    fn psql_of(&self, server: &Server, how: &str, password: &str, sql: &str) -> Result<String> {
        let port = server.address().port();
        let output = Command::new("psql")
            .args([&format!("host=127.0.0.1 port={port} {how}"), "-XAtc", sql])
            .env("PGPASSWORD", password)
            .current_dir(self.0.path())
            .output()?;
        let told = match output.status.success() {
            true => output.stdout,
            false => output.stderr,
        };
        Ok(String::from_utf8_lossy(&told).trim().to_string())
    }
}

fn files(rules: &str) -> Result<Files> {
    let files = Files(tempfile::tempdir()?);
    let directory = files.0.path();
    authority("authority", directory)?;
    authority("stranger", directory)?;
    for (name, by) in [
        ("server", "authority"),
        ("ann", "authority"),
        ("bob", "authority"),
        ("eve", "stranger"),
    ] {
        signed(name, by, directory)?;
    }
    files.write("passwords", "boss:secret\n")?;
    // Clients refuse keys that others can read.
    for name in ["ann.key", "bob.key", "eve.key", "passwords"] {
        std::fs::set_permissions(files.path(name), Permissions::from_mode(0o600))?;
    }
    files.write("hba", rules)?;
    Ok(files)
}

/// The rules of `rules` that connections can match, as psql shows the table of them.
const LISTED: &str = "3|hostssl|{all}|{ann}|127.0.0.0|255.0.0.0|cert|{clientcert=verify-full}|
4|hostssl|{all}|{+both}|127.0.0.1|255.255.255.255|scram-sha-256|{clientcert=verify-full}|
5|host|{all}|{guest,ghost}|all||trust||
6|host|{all}|{mallory}|all||reject||
7|hostssl|{all}|{boss}|all||scram-sha-256||
8|host|{all}|{all}|10.0.0.0|255.0.0.0|scram-sha-256||";

async fn rules() -> Result<()> {
    let files = files(
        "# Who is who by a certificate, who signs with both, and who is believed\n\
         local   all all peer\n\
         hostssl all ann 127.0.0.0/8 cert\n\
         hostssl all +both 127.0.0.1 255.255.255.255 scram-sha-256 clientcert=verify-full\n\
         host all guest,ghost all trust\n\
         host all mallory all reject\n\
         hostssl all boss all scram-sha-256\n\
         host all all 10.0.0.0/8 scram-sha-256\n",
    )?;
    let args = files.args();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let server = Server::start(&args)?;
    let (tls, plain) = ("sslmode=require", "sslmode=disable");
    let boss = format!("user=boss dbname=tenon {tls}");
    ensure!(files.psql(&server, &boss, "secret")? == "boss");
    let roles = "CREATE ROLE ann LOGIN; CREATE ROLE both; CREATE ROLE guest LOGIN; CREATE ROLE mallory LOGIN; \
                 CREATE ROLE bob LOGIN PASSWORD 'bobpw' IN ROLE both; CREATE ROLE far LOGIN PASSWORD 'farpw'";
    let port = server.address().port();
    let made = Command::new("psql")
        .args([&format!("host=127.0.0.1 port={port} {boss}"), "-XAtc", roles])
        .env("PGPASSWORD", "secret")
        .output()?;
    ensure!(made.status.success(), "{made:?}");
    let listed = files.psql_of(&server, &boss, "secret", "SELECT * FROM pg_hba_file_rules")?;
    ensure!(listed == LISTED, "{listed}");
    let own = |name: &str| format!("{tls} sslcert={name}.crt sslkey={name}.key");
    let entry = |user: &str, encryption: &str| {
        format!("no pg_hba.conf entry for host \"127.0.0.1\", user \"{user}\", database \"tenon\", {encryption}")
    };
    let with_certificate = |name: &str| own(name);
    for (user, how, password, told) in [
        ("ann", with_certificate("ann"), "", "ann".to_string()),
        ("ann", with_certificate("bob"), "", "certificate authentication failed for user \"ann\"".into()),
        ("ann", tls.into(), "", "connection requires a valid client certificate".into()),
        ("ann", plain.into(), "", entry("ann", "no encryption")),
        // Whom the authority knows nothing of does not come as far as to say a name.
        ("ann", with_certificate("eve"), "", "alert unknown ca".into()),
        ("guest", with_certificate("eve"), "", "alert unknown ca".into()),
        ("bob", with_certificate("bob"), "bobpw", "bob".into()),
        ("bob", with_certificate("bob"), "wrong", "password authentication failed for user \"bob\"".into()),
        ("bob", with_certificate("ann"), "bobpw", "certificate authentication failed for user \"bob\"".into()),
        ("bob", plain.into(), "bobpw", entry("bob", "no encryption")),
        ("guest", plain.into(), "", "guest".into()),
        ("guest", with_certificate("bob"), "", "guest".into()),
        ("ghost", plain.into(), "", "role \"ghost\" does not exist".into()),
        (
            "mallory",
            tls.into(),
            "",
            "pg_hba.conf rejects connection for host \"127.0.0.1\", user \"mallory\", database \"tenon\", SSL encryption".into(),
        ),
        ("far", tls.into(), "farpw", entry("far", "SSL encryption")),
        ("nobody", plain.into(), "", entry("nobody", "no encryption")),
        ("boss", plain.into(), "secret", entry("boss", "no encryption")),
        ("boss", tls.into(), "wrong", "password authentication failed for user \"boss\"".into()),
    ] {
        let found = files.psql(&server, &format!("user={user} dbname=tenon {how}"), password)?;
        let holds = match told.contains(' ') {
            true => found.contains(&told),
            false => found == told,
        };
        ensure!(holds, "{user} by {how}: {found:?}, not {told:?}");
    }
    // A file that is wrong changes nothing; a right one holds for those that come, by a signal or as a superuser asks.
    let far = format!("user=far dbname=tenon {plain}");
    for (rules, by_signal, told) in [
        ("host all all nowhere trust\n", true, entry("far", "no encryption")),
        (
            "host all far,boss 127.0.0.1/32 scram-sha-256\n",
            true,
            "far".to_string(),
        ),
        (
            "host all boss 127.0.0.1/32 scram-sha-256\n",
            false,
            entry("far", "no encryption"),
        ),
    ] {
        files.write("hba", rules)?;
        let reload = "SELECT pg_reload_conf()";
        match by_signal {
            true => run("kill", &["-HUP", &server.pid().to_string()], files.0.path())?,
            false => {
                let refused = files.psql_of(&server, &far, "farpw", reload)?;
                ensure!(
                    refused.contains("permission denied for function pg_reload_conf"),
                    "{refused}"
                );
                let boss = format!("user=boss dbname=tenon {plain}");
                ensure!(files.psql_of(&server, &boss, "secret", reload)? == "t");
            }
        }
        let begun = std::time::Instant::now();
        loop {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let found = files.psql(&server, &far, "farpw")?;
            if found.contains(&told) && (told != "far" || found == told) {
                break;
            }
            ensure!(begun.elapsed().as_secs() < 20, "{found:?}, not {told:?}");
        }
        if told == "far" {
            let listed = "SELECT line_number, user_name FROM pg_hba_file_rules";
            let refused = files.psql_of(&server, &far, "farpw", listed)?;
            ensure!(
                refused.contains("permission denied for view pg_hba_file_rules"),
                "{refused}"
            );
            let boss = format!("user=boss dbname=tenon {plain}");
            ensure!(files.psql_of(&server, &boss, "secret", listed)? == "1|{far,boss}");
        }
    }
    Ok(())
}

/// A server does not start with rules that it does not understand.
async fn wrong_files() -> Result<()> {
    let files = Files(tempfile::tempdir()?);
    files.write("passwords", "boss:secret\n")?;
    for (rules, told) in [
        ("", "has no rule: nobody could connect"),
        (
            "host all all all ldap\n",
            "line 1: authentication method \"ldap\" is not supported",
        ),
        (
            "\nhostssl all all all cert\n",
            "line 2: client certificates are verified by --tls-client-ca",
        ),
    ] {
        files.write("hba", rules)?;
        let args = &files.args()[..4];
        let output = Command::new(crate::process::binary())
            .args(args)
            .args(["--listen", "127.0.0.1:0"])
            .output()?;
        let found = String::from_utf8_lossy(&output.stderr);
        ensure!(!output.status.success() && found.contains(told), "{found}, not {told}");
    }
    Ok(())
}
