// Adds to the plain HTML of public results: saves the picture as a PNG.

import { offerPictures } from "./png.js";

offerPictures();
