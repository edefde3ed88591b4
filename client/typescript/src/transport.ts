/** Calls of the protocol: unary calls of Connect with binary messages, by the platform's `fetch`. */
import { create, fromBinary, type Message, toBinary } from "@bufbuild/protobuf";
import type { GenMessage } from "@bufbuild/protobuf/codegenv2";
import { base64Decode } from "@bufbuild/protobuf/wire";
import { DurationSchema } from "@bufbuild/protobuf/wkt";
import { blocksOf } from "./canonical.js";
import { GeoveilError, ParameterError } from "./errors.js";
import { CampaignEnvelopeSchema, CampaignState } from "./gen/geoveil/proto/v1/campaign_pb.js";
import {
  BrowseCampaignsRequestSchema,
  BrowseCampaignsResponseSchema,
  GetCampaignRequestSchema,
  type GetCampaignResponse,
  GetCampaignResponseSchema,
  SubmitReportsRequestSchema,
  SubmitReportsResponseSchema,
} from "./gen/geoveil/proto/v1/collector_pb.js";
import { fromReport, type ReportResult } from "./report.js";

// As OTLP has them; "resource_exhausted" only if the server says when to come back.
const RETRYABLE = new Set(["canceled", "deadline_exceeded", "aborted", "out_of_range", "unavailable", "data_loss"]);
const OF_SERVER = new Set(["unavailable", "deadline_exceeded", "canceled", "unauthenticated"]);
/** What a status of HTTP means where no Connect error comes with it. */
const HTTP: Partial<Record<number, string>> = { 401: "unauthenticated", 403: "permission_denied", 404: "unimplemented", 429: "unavailable", 502: "unavailable", 503: "unavailable", 504: "unavailable" };
const PAGE = 100;
const MOST_PAGES = 100;
const LONGEST_WAIT_MS = 86_400_000;
const MOST_ANSWER = 4 << 20;

/** A call failed. What the server says about it is not repeated. */
export class TransportError extends GeoveilError {
  /** Whether a later try of the same request may succeed. */
  readonly retryable: boolean;
  /** Whether it is the server that failed, and not this request. */
  readonly ofServer: boolean;

  constructor(
    /** A code of Connect, "unavailable" for example. */
    readonly status: string,
    /** What the server asks to wait, in milliseconds. */
    readonly retryAfterMs?: number,
  ) {
    super("transport", `the server could not be asked: ${status}`);
    this.name = "TransportError";
    this.retryable = status === "resource_exhausted" ? retryAfterMs !== undefined : RETRYABLE.has(status);
    this.ofServer = OF_SERVER.has(status);
  }
}

export interface Published {
  readonly envelope: Uint8Array;
  readonly closed: boolean;
}

/** What a device asks a server. */
export interface Transport {
  campaign(id: string, timeoutMs: number): Promise<Published>;
  browse(timeoutMs: number): Promise<Published[]>;
  /** Send one report; these bytes as they are. */
  submit(campaignId: string, digest: Uint8Array, report: Uint8Array, timeoutMs: number): Promise<ReportResult>;
}

/** The transport to the web door of a server. */
export function transportTo(server: string): Transport {
  const base = `${safe(server)}/geoveil.proto.v1.Collector`;
  const published = ({ envelope, state }: GetCampaignResponse): Published => ({
    envelope: toBinary(CampaignEnvelopeSchema, envelope ?? create(CampaignEnvelopeSchema)),
    closed: state === CampaignState.CLOSED,
  });
  return {
    campaign: async (campaignId, timeoutMs) =>
      published(await called(`${base}/GetCampaign`, GetCampaignRequestSchema, create(GetCampaignRequestSchema, { campaignId }), GetCampaignResponseSchema, timeoutMs)),
    browse: async (timeoutMs) => {
      const found: Published[] = [];
      const end = performance.now() + timeoutMs;
      let pageToken = "";
      for (let page = 0; page < MOST_PAGES; page++) {
        const request = create(BrowseCampaignsRequestSchema, { pageSize: PAGE, pageToken });
        const answer = await called(`${base}/BrowseCampaigns`, BrowseCampaignsRequestSchema, request, BrowseCampaignsResponseSchema, end - performance.now());
        found.push(...answer.campaigns.map(published));
        pageToken = answer.nextPageToken;
        if (!pageToken) break;
      }
      return found;
    },
    submit: async (campaignId, campaignDigest, report, timeoutMs) => {
      const reports = [fromReport(report)];
      const request = create(SubmitReportsRequestSchema, { campaignId, campaignDigest, reports });
      const { results } = await called(`${base}/SubmitReports`, SubmitReportsRequestSchema, request, SubmitReportsResponseSchema, timeoutMs);
      if (results.length !== 1) throw new TransportError("internal");
      return results[0]!;
    },
  };
}

/** Refuse a server elsewhere without TLS: anybody on the way could read and replace. */
function safe(server: string): string {
  if (!URL.canParse(server)) throw new ParameterError("server", server, "like https://collector.example");
  const { protocol, hostname } = new URL(server);
  const here = ["localhost", "127.0.0.1", "[::1]"].includes(hostname);
  if (protocol !== "https:" && !(protocol === "http:" && here)) {
    throw new GeoveilError("parameter", "the server must be an https address, or this machine");
  }
  return server.replace(/\/$/, "");
}

async function called<I extends Message, O extends Message>(
  url: string,
  asked: GenMessage<I>,
  request: I,
  answered: GenMessage<O>,
  timeoutMs: number,
): Promise<O> {
  const left = Math.max(Math.floor(timeoutMs), 1);
  let response: Response;
  let body: Uint8Array | undefined;
  try {
    response = await fetch(url, {
      method: "POST",
      headers: { "Content-Type": "application/proto", "Connect-Protocol-Version": "1", "Connect-Timeout-Ms": `${left}` },
      body: toBinary(asked, request) as Uint8Array<ArrayBuffer>,
      signal: AbortSignal.timeout(left),
      credentials: "omit",
      redirect: "error",
      cache: "no-store",
      referrerPolicy: "no-referrer",
    });
    body = await bodyOf(response);
  } catch (error) {
    // A new error, as that of the platform may quote the request.
    const late = error instanceof Error && error.name === "TimeoutError";
    response = Response.error();
    body = new TextEncoder().encode(JSON.stringify({ code: late ? "deadline_exceeded" : "unavailable" }));
  }
  if (!response.ok) throw failure(response.status, body ?? new Uint8Array());
  const type = response.headers.get("Content-Type") ?? "";
  if (type.startsWith("application/proto") && body) {
    try {
      return fromBinary(answered, body);
    } catch {
      // Said below.
    }
  }
  throw new TransportError("internal");
}

/** What a server has answered; undefined if it is more than an answer can be: the rest is not read. */
async function bodyOf({ body }: Response): Promise<Uint8Array | undefined> {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  const reader = body?.getReader();
  for (let size = 0; reader; ) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.length;
    if (size > MOST_ANSWER) {
      void reader.cancel().catch(() => undefined);
      return undefined;
    }
    parts.push(value);
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

interface ConnectFailure {
  code?: unknown;
  details?: { type?: unknown; value?: unknown }[];
}

function failure(status: number, body: Uint8Array): TransportError {
  let told: ConnectFailure = {};
  try {
    told = (JSON.parse(new TextDecoder().decode(body)) as ConnectFailure | null) ?? {};
  } catch {
    // No error of Connect: one of something on the way.
  }
  const known = typeof told.code === "string" && /^[a-z_]{1,30}$/.test(told.code);
  return new TransportError(known ? (told.code as string) : (HTTP[status] ?? "unknown"), retryAfter(told));
}

/** What a google.rpc.RetryInfo among the details says, in milliseconds. */
function retryAfter({ details }: ConnectFailure): number | undefined {
  for (const detail of Array.isArray(details) ? details : []) {
    if (detail?.type !== "google.rpc.RetryInfo" || typeof detail.value !== "string") continue;
    try {
      const [delay] = blocksOf(base64Decode(detail.value), 1);
      const { seconds, nanos } = fromBinary(DurationSchema, delay ?? new Uint8Array());
      return Math.min(Math.max(Number(seconds) * 1000 + nanos / 1e6, 0), LONGEST_WAIT_MS);
    } catch {
      return undefined;
    }
  }
  return undefined;
}
