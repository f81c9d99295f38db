//! `kernels.json`: kernel values and the gradient of sum(G * K(X, X)).

use faer::Mat;
use serde::Deserialize;
use siskin_gp::kernels::{AnyForm, Kernel, KernelGradient, softplus_slope};

use super::arrays::{Tol, flat, matrix};
use super::report::{Case, Report};

#[derive(Deserialize)]
#[allow(non_snake_case)]
struct File {
    X: Vec<Vec<f64>>,
    X2: Vec<Vec<f64>>,
    G: Vec<Vec<f64>>,
    cases: Vec<KernelCase>,
    tol: Tol,
}

#[derive(Deserialize)]
#[allow(non_snake_case)]
struct KernelCase {
    kind: String,
    power: u32,
    outputscale: f64,
    lengthscale: f64,
    variance: f64,
    offset: f64,
    K: Vec<Vec<f64>>,
    Kcross: Vec<Vec<f64>>,
    vjp: Vjp,
}

#[derive(Deserialize)]
#[allow(non_snake_case)]
struct Vjp {
    X: Vec<Vec<f64>>,
    outputscale: f64,
    variance: Option<f64>,
    lengthscale: Option<f64>,
    offset: Option<f64>,
}

pub(super) fn check(text: &str, report: &mut Report) -> Result<(), serde_json::Error> {
    let file: File = serde_json::from_str(text)?;
    for want in &file.cases {
        report.case(&format!("kernels {} power {}", want.kind, want.power), |case| {
            let name = match want.kind.as_str() {
                "poly" => format!("poly{}", want.power),
                other => other.to_owned(),
            };
            let Some(form) = AnyForm::named(&name) else {
                return case.error("unknown kernel", f64::NAN, 0.0);
            };
            let shape = |name: &&str| match *name {
                "variance" => want.variance,
                "offset" => want.offset,
                _ => want.lengthscale,
            };
            let shapes: Vec<f64> = form.shapes().iter().map(shape).collect();
            let kernel = Kernel::new(form).with_shapes(&shapes).and_then(|k| k.with_scale(want.outputscale));
            if let Some(kernel) = case.try_run("parameters", kernel) {
                compare(case, &file, want, &kernel);
            }
        });
    }
    Ok(())
}

fn compare(case: &mut Case, file: &File, want: &KernelCase, kernel: &Kernel) {
    let tol = file.tol.rel;
    let (x, x2) = (matrix(&file.X), matrix(&file.X2));
    let Some(f) = case.try_run("X", kernel.features(x.as_ref())) else { return };
    let Some(f2) = case.try_run("X2", kernel.features(x2.as_ref())) else { return };
    let Some(cross) = case.try_run("K(X, X2)", kernel.between(&f, &f2)) else { return };
    let Some(within) = case.try_run("K(X, X)", kernel.within(&f)) else { return };
    let Some(own) = case.try_run("k(x, x)", kernel.own(&f)) else { return };
    let k = within.of_classes(1);
    case.rel("K(X, X)", &flat(&k[0]), &flat(&matrix(&want.K)), tol);
    let diagonal: Vec<f64> = (0..x.nrows()).map(|i| k[0][(i, i)]).collect();
    case.rel("diagonal", &flat(&own.own_of_classes(1)), &diagonal, tol);
    case.rel("K(X, X2)", &flat(&cross.of_classes(1)[0]), &flat(&matrix(&want.Kcross)), tol);

    let mut gradient = KernelGradient::zeros(kernel);
    let mut zbar = Mat::zeros(f.dim(), f.points());
    within.pull(&[matrix(&file.G)], &mut zbar, &mut gradient);
    case.rel("d/dX", &flat(&f.pull_back(&zbar)), &flat(&matrix(&want.vjp.X)), tol);
    // The file's derivatives are by the parameters themselves, ours by what softplus takes to them.
    let scale = gradient.raw_scale[0] / softplus_slope(kernel.raw_scale[0]);
    case.rel("d/doutputscale", &[scale], &[want.vjp.outputscale], tol);
    for (i, name) in kernel.form.shapes().iter().enumerate() {
        let got = gradient.raw_shape[i] / softplus_slope(kernel.raw_shape[i]);
        let wanted = match *name {
            "variance" => want.vjp.variance,
            "offset" => want.vjp.offset,
            _ => want.vjp.lengthscale,
        };
        case.rel(&format!("d/d{name}"), &[got], &[wanted.unwrap_or(f64::NAN)], tol);
    }
}
