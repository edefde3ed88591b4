// What a page of public results does beyond plain HTML: its picture as a PNG.

import { offerPictures } from "./png.js";

offerPictures();
