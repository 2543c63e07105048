// Streams an export: all rows, page by page, as long as the client keeps its access and reads the response.

import type { ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import { HttpError } from '../http/errors.ts'
import { takesGzip } from '../http/requests/accept.ts'
import { codedStream, type Form } from './answers/content-negotiation.ts'
import type { Row } from './reader.ts'
import type { ReadRequest } from './request.ts'
import { exportText, headersOf } from './serialize.ts'

/** The pages and the recipient of an export. */
export interface ExportParts {
  readonly request: ReadRequest & { kind: 'export' }
  readonly form: Form
  readonly pages: AsyncGenerator<readonly Row[]>
  /** Called before each page: an export may last longer than the access. */
  readonly isAllowed: () => Promise<boolean>
  /** Aborts when the client disconnects, or loses its slot. */
  readonly signal: AbortSignal
  /** A client that reads nothing for this long is disconnected. */
  readonly slowClientMsMax: number
}

/**
 * The first page is read before the response starts, so that failures up to then give an error response instead of a broken stream. For HEAD
 * only the headers are sent, and nothing is read.
 */
export async function sendExport(reply: FastifyReply, parts: ExportParts): Promise<FastifyReply> {
  const { request, form, signal, slowClientMsMax } = parts
  const isHead = reply.request.method === 'HEAD'
  const isCoded = takesGzip(reply.request.headers['accept-encoding'])
  const pages = whileAllowed(parts.pages, parts.isAllowed)
  const first = isHead ? undefined : await pages.next()
  // Set only now, because error responses have another form.
  reply.headers(headersOf(form))
  if (isCoded) reply.header('content-encoding', 'gzip')
  // For HEAD, Fastify would read the whole export. An empty stream has no length, like the response to GET.
  if (first === undefined) return reply.send(Readable.from([]))
  const { offset, filter, csvSafe, keys } = request

  async function* chunks(begun: IteratorResult<readonly Row[]>): AsyncGenerator<string | Buffer> {
    try {
      const frame = { total: undefined, offset, limit: 'all', format: filter.format, keys } as const
      yield* exportText(form, frame, begun, pages, csvSafe, signal)
    } finally {
      await pages.return(undefined)
    }
  }

  closeSlowClient(reply.raw, slowClientMsMax)
  const text = Readable.from(chunks(first), { objectMode: false, highWaterMark: 64 * 1024 })
  return reply.send(isCoded ? codedStream(text) : text)
}

/** Aborts if the caller has lost its access. */
async function* whileAllowed<Page>(pages: AsyncGenerator<Page>, isAllowed: () => Promise<boolean>): AsyncGenerator<Page> {
  for await (const page of pages) {
    if (!(await isAllowed())) throw new HttpError('forbidden')
    yield page
  }
}

/**
 * Closes the connection of a client that reads nothing of its response for `slowClientMsMax`, because pending data keeps memory and the store occupied. Call it
 * before the response is sent. If no bytes are pending, the store is slow and not the client. After the response the keep-alive time-out applies.
 */
export function closeSlowClient(response: ServerResponse, slowClientMsMax: number): void {
  response.setTimeout(slowClientMsMax, () => {
    if (response.writableLength > 0) response.destroy()
    // An ended response has no connection: with an injected request the timer continues after its end.
    else if (!response.writableEnded) response.socket?.setTimeout(slowClientMsMax)
  })
}
