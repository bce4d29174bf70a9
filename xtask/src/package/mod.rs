//! What is handed out: the Debian package, the static program, the container image and the site.
//! Room: xtask.   In: `packaging/`, `docs/`.   Out: `target/package/`.

mod clean_root;
mod deb;
mod image;
mod site;
mod unit;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::cargo;
use crate::programs::succeed;

const USAGE: &str = "\
usage: cargo xtask package WHAT

  deb      target/package/onefold_VERSION_ARCH.deb, with optimisation
  static   target/package/onefold, linked with musl: it runs on any Linux; serves, archives and
           estimates, and has no models
  static --models
           the same with simulated drives, caches and arrays, and the papers' experiments
  image    a container image `onefold` of the static program, by buildah or podman
  site     target/package/site, the documents as pages, by mdbook
  check    make the Debian package of the tests' build, judge its unit, install it in a copy of this
           machine's system and serve from it
  check --clean-root
           the same with optimisation, in a new Debian by debootstrap
";

/// Everything that is made lies here.
const FOLDER: &str = "target/package";
/// Most bytes of the static program, and of that with models.
const STATIC_BYTES: u64 = 16_000_000;
const STATIC_BYTES_WITH_MODELS: u64 = 21 << 20;
/// What the static program can do: all but what would make it too large, which is the client of S3:
/// alone, with TLS, it is a program of 3.9 MB more than one without (2026-11-26).
const STATIC_FEATURES: &str = "archive,mount,parquet,top";
const STATIC_TARGET: &str = "x86_64-unknown-linux-musl";
/// The profile of what is handed out, and its folder below `target`.
const PROFILE: &str = "dist";

/// Returns whether all is well.
pub fn run(args: &[String]) -> Result<bool> {
    std::fs::create_dir_all(FOLDER).with_context(|| format!("cannot make {FOLDER}"))?;
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["deb"] => println!("{}", deb::make(&built(None, true)?, deb::Packing::Small)?.display()),
        ["static"] => println!("{}", static_program(false)?.display()),
        ["static", "--models"] => println!("{}", static_program(true)?.display()),
        ["image"] => image::make(&static_program(false)?)?,
        ["site"] => site::make()?,
        ["check"] => {
            let package = deb::make(&tests_program()?, deb::Packing::Fast)?;
            unit::judge(Path::new("packaging/onefold@.service"))?;
            return clean_root::check_in_copy(&package);
        }
        ["check", "--clean-root"] => {
            let package = deb::make(&built(None, true)?, deb::Packing::Small)?;
            unit::judge(Path::new("packaging/onefold@.service"))?;
            return clean_root::check_in_new(&package);
        }
        ["" | "--help" | "-h"] | [] => print!("{USAGE}"),
        _ => bail!("unknown: package {}\n\n{USAGE}", words.join(" ")),
    }
    Ok(true)
}

/// The command as it is handed out, for this machine or for another target.
fn built(target: Option<&str>, with_models: bool) -> Result<PathBuf> {
    let mut args = vec!["build", "--profile", PROFILE, "--package", "onefold", "--features"];
    args.push(if target.is_some() { STATIC_FEATURES } else { crate::ci::FEATURES });
    if !with_models {
        args.push("--no-default-features");
    }
    let mut folder = PathBuf::from("target");
    if let Some(target) = target {
        args.extend(["--target", target]);
        folder.push(target);
    }
    succeed(&mut cargo::command(&args))?;
    Ok(folder.join(PROFILE).join("onefold"))
}

/// The command of the tests' build, which is there when the tests have run.
fn tests_program() -> Result<PathBuf> {
    succeed(cargo::command(&crate::ci::TESTS_BUILD).arg("--quiet"))?;
    Ok(PathBuf::from("target/debug/onefold"))
}

/// The static program, shown to be one, and small enough.
fn static_program(with_models: bool) -> Result<PathBuf> {
    let built = built(Some(STATIC_TARGET), with_models).with_context(|| {
        format!("needs musl-gcc (musl-tools) and `rustup target add {STATIC_TARGET}`")
    })?;
    let program = Path::new(FOLDER).join("onefold");
    succeed(Command::new("strip").arg("-o").arg(&program).arg(&built))?;
    let bytes = std::fs::metadata(&program)?.len();
    let most = if with_models { STATIC_BYTES_WITH_MODELS } else { STATIC_BYTES };
    println!("{bytes} bytes of at most {most}");
    ensure!(bytes <= most, "the static program has {bytes} bytes");
    let libraries = Command::new("ldd").arg(&program).output().context("cannot run ldd")?;
    let said = String::from_utf8_lossy(&libraries.stdout).into_owned()
        + &String::from_utf8_lossy(&libraries.stderr);
    ensure!(
        said.contains("statically linked") || said.contains("not a dynamic executable"),
        "the program needs libraries: {said}"
    );
    Ok(program)
}
