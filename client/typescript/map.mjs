/** What pages draw maps with: loaded only where a place is asked, and bundled by itself. */
export { addProtocol, Map as GlMap, Marker, setWorkerUrl } from "maplibre-gl";
export { PMTiles } from "pmtiles";
export { VectorTile } from "@mapbox/vector-tile";
export { PbfReader } from "pbf";
