// A client made of the .proto files and Node alone. It speaks the wire and computes nothing private.
// Arguments: the server's address, and the folder of the .proto files. Prints JSON.
"use strict";

const crypto = require("node:crypto");
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");
const protobuf = require("protobufjs");

const CONTEXT = Buffer.from("geoveil campaign v1\n");
const [address, protos] = process.argv.slice(2);
const files = ["analyst", "collector"].map((name) => `geoveil/proto/v1/${name}.proto`);
const options = { includeDirs: [protos], longs: String, enums: String, oneofs: true };
const wire = grpc.loadPackageDefinition(loader.loadSync(files, options)).geoveil.proto.v1;
const root = new protobuf.Root();
root.resolvePath = (origin, target) =>
  target.startsWith("google/") ? target : `${protos}/${target.replace(`${protos}/`, "")}`;
const Campaign = root.loadSync(files).lookupType("geoveil.proto.v1.Campaign");

const credentials = grpc.credentials.createInsecure();
const analyst = new wire.Analyst(address, credentials);
const collector = new wire.Collector(address, credentials);

// A call that hangs says which it is.
const soon = () => ({ deadline: Date.now() + 30000 });
const call = (client, method, request) =>
  new Promise((resolve, reject) =>
    client[method](request, soon(), (error, response) =>
      error ? reject(new Error(`${method}: ${error.message}`, { cause: error })) : resolve(response),
    ),
  );

const streamed = (request) =>
  new Promise((resolve, reject) => {
    const stream = collector.SubmitReportStream(soon());
    stream.on("data", resolve);
    stream.on("error", reject);
    stream.write(request);
    stream.end();
  });

function published() {
  const now = Math.floor(Date.now() / 1000);
  return Campaign.encode(
    Campaign.fromObject({
      campaignId: "by-node",
      title: "By Node",
      attribute: { name: "income", unit: "dollar" },
      privacy: { epsilon: 1, per: 8000 },
      queries: [
        { label: "above", threshold: { at: 50000, width: 24000, profile: "PROFILE_SMOOTHSTEP" } },
      ],
      mechanism: { lipschitzLaplace: {} },
      allocation: "ALLOCATION_PARTITION",
      grid: { stepExponent: -30 },
      opens: { seconds: now - 60 },
      closes: { seconds: now + 3600 },
    }),
  ).finish();
}

function sealed(campaign) {
  const { privateKey, publicKey } = crypto.generateKeyPairSync("ed25519");
  // The last 32 bytes of its DER are the key. An export as "jwk" can wait for ever in Node 20:
  // garbage collected at that moment locks the key a second time.
  const raw = publicKey.export({ format: "der", type: "spki" }).subarray(-32);
  const signature = crypto.sign(null, Buffer.concat([CONTEXT, campaign]), privateKey);
  return { campaign, signature: { publicKey: raw, signature } };
}

function verified({ campaign, signature }) {
  const x = signature.publicKey.toString("base64url");
  const key = crypto.createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x }, format: "jwk" });
  const holds = (bytes) =>
    crypto.verify(null, Buffer.concat([CONTEXT, bytes]), key, signature.signature);
  const other = Buffer.from(campaign);
  other[other.length - 1] ^= 1;
  return holds(campaign) && !holds(other);
}

async function main() {
  const envelope = sealed(published());
  const created = await call(analyst, "CreateCampaign", { envelope });
  const found = await call(collector, "GetCampaign", { campaignId: "by-node" });
  const digest = crypto.createHash("sha256").update(found.envelope.campaign).digest();
  const reports = [7, -3, 2 ** 33].map((value) => ({
    reportId: crypto.randomBytes(16),
    answers: [{ queryIndex: 0, value }],
  }));
  const request = { campaignId: "by-node", campaignDigest: digest, reports };
  const first = await call(collector, "SubmitReports", request);
  const second = await streamed(request);
  const refused = await call(collector, "SubmitReports", {
    ...request,
    campaignDigest: Buffer.alloc(32),
  }).then(
    () => "OK",
    (error) => grpc.status[error.cause.code],
  );
  const shown = await call(analyst, "GetEstimate", { campaignId: "by-node" });
  const [estimate] = shown.estimates;
  return {
    digest: digest.toString("hex"),
    created: created.campaignDigest.toString("hex"),
    verified: verified(found.envelope),
    foreign: foreignSignature(process.argv[4]),
    statuses: [...first.results, ...second.results].map((result) => result.status),
    refused,
    n: Number(estimate.n),
    sum: estimate.sum,
    value: estimate.value,
  };
}

// Of an envelope that geoveil sealed, in hexadecimal.
function foreignSignature(hex) {
  const Envelope = root.lookupType("geoveil.proto.v1.CampaignEnvelope");
  const envelope = Envelope.decode(Buffer.from(hex, "hex"));
  const bytes = (field) => Buffer.from(field);
  return {
    digest: crypto.createHash("sha256").update(envelope.campaign).digest("hex"),
    verified: verified({
      campaign: bytes(envelope.campaign),
      signature: {
        publicKey: bytes(envelope.signature.publicKey),
        signature: bytes(envelope.signature.signature),
      },
    }),
  };
}

main().then(
  (result) => {
    console.log(JSON.stringify(result));
    analyst.close();
    collector.close();
  },
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
