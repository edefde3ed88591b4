# Survey statistics of what each report counts for. Columns of contributions are unbiased and noisy:
# means of them are right, and so are products of different fields. A square is not, nor a product
# of two columns of one field; geoveil writes these products as columns of their own, "a * b".

# What each report counts for. A CSV file of `geoveil form contributions` is read; an export
# (.parquet) or a masked file, beside which its .mask.json stands, is first given to that command.
contributions <- function(file, products = FALSE, period = NULL, command = "geoveil") {
  if (!file.exists(file)) stop("file: ", file, " is not there", call. = FALSE)
  read <- file
  if (grepl("\\.parquet$", file) || file.exists(paste0(file, ".mask.json"))) {
    read <- tempfile(fileext = ".csv")
    on.exit(unlink(read))
    arguments <- c("form", "contributions", shQuote(file), shQuote(read), if (products) "--products",
                   if (!is.null(period)) c("--period", period))
    if (system2(command, arguments) != 0) {
      stop("file: ", command, " could not read the reports in ", file, call. = FALSE)
    }
  }
  columns <- read.csv(read, check.names = FALSE, encoding = "UTF-8")
  if (nrow(columns) < 2 || !all(vapply(columns, is.numeric, NA))) {
    stop("file: ", file, " must have two rows or more, of numbers alone", call. = FALSE)
  }
  columns
}

# A design of the package survey: contributions beside what is open of the same people, row by row.
geoveil_design <- function(columns, people = NULL, ids = ~1, weights = NULL, ...) {
  if (!is.null(people)) {
    if (nrow(people) != nrow(columns)) {
      stop("people: has ", nrow(people), " rows, and columns ", nrow(columns), call. = FALSE)
    }
    twice <- intersect(names(people), names(columns))
    if (length(twice)) {
      stop("people: leave out what columns has as well: ", toString(twice), call. = FALSE)
    }
    columns <- cbind(people, columns)
  }
  if (is.null(weights)) weights <- rep(1, nrow(columns))
  svydesign(ids = ids, weights = weights, data = columns, ...)
}

# A formula of columns, whatever characters are in their names.
among <- function(names) {
  as.formula(call("~", Reduce(function(a, b) call("+", a, b), lapply(names, as.name))))
}

# Weighted means of columns, with all covariances: svymean.
geoveil_means <- function(design, columns) {
  absent <- setdiff(columns, names(design$variables))
  if (length(absent)) stop("columns: not there: ", toString(absent), call. = FALSE)
  means <- svymean(among(columns), design)
  covariance <- vcov(means)
  dimnames(covariance) <- list(columns, columns)
  list(means = setNames(as.numeric(coef(means)), columns), covariance = covariance)
}

# Least squares of a private answer on private answers, with the design's errors. Moments are means
# of the columns "a * b"; the noise in the answers of one person would bias a fit of the columns.
geoveil_lm <- function(design, response, terms) {
  product <- function(a, b) {
    if (a == "1" && b == "1") return(rep(1, nrow(design$variables)))
    name <- if (a == "1") b else if (b == "1") a else paste(a, "*", b)
    turned <- paste(b, "*", a)
    held <- intersect(c(name, turned), names(design$variables))
    if (!length(held)) stop("design: has no column '", name, "': take products", call. = FALSE)
    design$variables[[held[1]]]
  }
  terms <- c("1", terms)
  weights <- weights(design)
  squares <- lapply(terms, function(a) vapply(terms, function(b) product(a, b), numeric(length(weights))))
  crossed <- vapply(terms, function(a) product(a, response), numeric(length(weights)))
  gram <- t(vapply(squares, function(of) colSums(weights * of), numeric(length(terms))))
  beta <- solve(gram, colSums(weights * crossed))
  scores <- crossed - vapply(squares, function(of) drop(of %*% beta), numeric(length(weights)))
  design$variables <- as.data.frame(scores)
  names(design$variables) <- paste0("score", seq_along(terms))
  spread <- vcov(svytotal(among(names(design$variables)), design))
  covariance <- solve(gram, t(solve(gram, spread)))
  labels <- c("(Intercept)", terms[-1])
  list(coefficients = setNames(beta, labels),
       covariance = matrix(covariance, length(labels), dimnames = list(labels, labels)))
}
