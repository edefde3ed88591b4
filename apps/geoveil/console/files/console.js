// Adds to the console's plain HTML: without it, everything but files still works, by forms and links.

import { keepFilled } from "./later.js";
import { follow } from "./live.js";
import { showOdds, slide } from "./plan.js";
import { offerPictures } from "./png.js";
import { keepFresh } from "./refresh.js";
import { dragQuantiles } from "./quantiles.js";
import { sendFiles } from "./upload.js";
import { keepUpdated, sayRanges } from "./update.js";

for (const place of document.querySelectorAll("[data-live]")) follow(place);
for (const slider of document.querySelectorAll("[data-logarithm-of]")) slide(slider);
for (const place of document.querySelectorAll("[data-odds]")) showOdds(place);
for (const form of document.querySelectorAll("form[data-updates]")) keepUpdated(form);
for (const form of document.querySelectorAll("form[data-quantiles]")) dragQuantiles(form);
for (const place of document.querySelectorAll("[data-refresh]")) keepFresh(place.id);
document.addEventListener("input", sayRanges);
document.addEventListener("submit", sendFiles);
offerPictures();
keepFilled();
