// A picture of the page as a PNG, drawn by the browser itself on a white ground.

const TIMES = 2;

async function savePicture(svg) {
  const copy = svg.cloneNode(true);
  const { width, height } = svg.viewBox.baseVal;
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  const text = new XMLSerializer().serializeToString(copy);
  const source = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  const image = new Image();
  image.src = source;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = TIMES * width;
  canvas.height = TIMES * height;
  const paper = canvas.getContext("2d");
  paper.fillStyle = "#ffffff";
  paper.fillRect(0, 0, canvas.width, canvas.height);
  paper.drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(source);
  const made = await new Promise((done) => canvas.toBlob(done, "image/png"));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(made);
  link.download = "picture.png";
  link.click();
  URL.revokeObjectURL(link.href);
}

// Let each button with data-png save the picture of its section.
export function offerPictures() {
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-png]");
    if (button !== null) savePicture(button.closest("section").querySelector("[data-picture] svg"));
  });
}
