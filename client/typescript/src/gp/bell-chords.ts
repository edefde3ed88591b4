/** Steepest chords of the bell e^{−u²/2}, of any length: upper bounds on cells, in doubles that are the same everywhere. */
import { ExponentialBound, LinearBound } from "./cells.js";

const PER_UNIT = 64;
const FAR_GROWTH = 1 + 2 ** -7;
const LOOSE = 2 ** 24;
const FARTHEST = 2 ** 320;
const ROUND_UP = 1 + 2 ** -40;

// 2^20 times the steepest chord from a point of each cell of length 1/64 from 0 to 4, rounded up.
const NEAR = [
  477821, 482424, 486985, 491501, 495971, 500394, 504767, 509088, 513358, 517573, 521732, 525834, 529878, 533861,
  537782, 541641, 545435, 549163, 552824, 556417, 559941, 563394, 566776, 570084, 573319, 576479, 579563, 582571,
  585501, 588353, 591125, 593818, 596430, 598961, 601411, 603778, 606062, 608264, 610381, 612415, 614365, 616230,
  618010, 619706, 621317, 622843, 624284, 625640, 626911, 628097, 629199, 630217, 631151, 632001, 632767, 633451,
  634052, 634571, 635009, 635365, 635641, 635838, 635955, 635994, 635994, 635955, 635840, 635648, 635381, 635040,
  634626, 634139, 633580, 632951, 632252, 631485, 630650, 629749, 628782, 627752, 626658, 625502, 624286, 623010,
  621676, 620285, 618838, 617336, 615781, 614174, 612516, 610809, 609053, 607250, 605401, 603508, 601571, 599593,
  597574, 595516, 593420, 591287, 589118, 586915, 584680, 582412, 580115, 577788, 575433, 573051, 570643, 568212,
  565757, 563280, 560782, 558265, 555729, 553176, 550606, 548021, 545422, 542809, 540185, 537550, 534904, 532250,
  529587, 526917, 524241, 521559, 518873, 516184, 513492, 510797, 508102, 505407, 502712, 500018, 497326, 494637,
  491951, 489269, 486592, 483920, 481254, 478595, 475942, 473298, 470661, 468033, 465415, 462806, 460207, 457619,
  455042, 452476, 449922, 447381, 444851, 442335, 439832, 437342, 434867, 432405, 429957, 427525, 425107, 422704,
  420316, 417944, 415587, 413246, 410921, 408612, 406319, 404043, 401783, 399539, 397312, 395102, 392908, 390731,
  388571, 386428, 384302, 382192, 380100, 378024, 375965, 373924, 371898, 369890, 367899, 365924, 363966, 362025,
  360100, 358191, 356299, 354424, 352565, 350722, 348895, 347084, 345289, 343510, 341747, 339999, 338267, 336550,
  334849, 333163, 331491, 329835, 328194, 326567, 324955, 323358, 321774, 320205, 318650, 317109, 315582, 314069,
  312569, 311083, 309610, 308150, 306703, 305269, 303848, 302439, 301043, 299659, 298288, 296929, 295582, 294246,
  292923, 291611, 290310, 289021, 287743, 286476, 285221, 283976, 282741, 281518, 280305, 279102, 277910, 276727,
  275555, 274393, 273240, 272097,
];

/** From u ≥ 4 on: where the touching point w has w(u − w) = 1, as if the bell were 0 at u. */
function beyond(u: number): number {
  const w = 2 / (u + Math.sqrt(u * u - 4));
  const square = w * w;
  return w * (1 - square / 2 + (square * square) / 8) * ROUND_UP;
}

let cells: [edges: number[], steepest: number[]] | undefined;

function bellCells(): [edges: number[], steepest: number[]] {
  if (cells) return cells;
  const edges = Array.from({ length: NEAR.length + 1 }, (_, i) => i / PER_UNIT);
  const steepest = NEAR.map((most) => most / 2 ** 20);
  for (let last = edges.at(-1)!; last < FARTHEST; last = edges.at(-1)!) {
    steepest.push(beyond(last));
    edges.push(last * (last < LOOSE ? FAR_GROWTH : 2));
  }
  return (cells = [edges, steepest]);
}

/** The smooth bound of the bell at infinite reach, as a function of |u|. */
export function bellBound(beta: number, linear: boolean): ExponentialBound | LinearBound {
  const [edges, steepest] = bellCells();
  return linear ? new LinearBound(edges, steepest, beta) : new ExponentialBound(edges, steepest, beta);
}
