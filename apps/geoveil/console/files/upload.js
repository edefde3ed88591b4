// Files chosen in a form are sent before it, each in its own request; the form then names the stored
// files, in a field "upload:NAME".

export async function sendFiles(event) {
  const form = event.target;
  const chosen = [...form.querySelectorAll('input[type="file"]')].filter((one) => one.files.length);
  if (!chosen.length) return;
  event.preventDefault();
  for (const input of chosen) {
    const answer = await fetch("/console/uploads", {
      method: "POST",
      headers: {
        "content-type": "application/octet-stream",
        "x-form-token": form.elements.form_token.value,
      },
      body: input.files[0],
    }).catch(() => null);
    if (!answer?.ok) {
      const much = answer?.status === 413;
      input.setCustomValidity(much ? "The file has more than 1 MB." : "The file could not be sent.");
      input.reportValidity();
      input.addEventListener("input", () => input.setCustomValidity(""), { once: true });
      return;
    }
    const name = `upload:${input.name}`;
    const kept = form.elements.namedItem(name) ?? form.appendChild(document.createElement("input"));
    Object.assign(kept, { type: "hidden", name, value: await answer.text() });
    input.value = "";
    input.required = false;
  }
  form.requestSubmit(event.submitter);
}
