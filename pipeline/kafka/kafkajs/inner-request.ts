// A request of our own as kafkajs's connections take it.

import { openWireReader, openWireWriter } from '../consumer/wire.ts'
import type { WireRequest } from '../consumer/wire-request.ts'
import type { InnerRequest } from './inner.ts'

/**
 * Its answer waits for as long as the broker says that it throttles us.
 *
 * @param requestTimeoutMs after which any request is given up; this one so much later as the broker may wait before it answers
 */
export function innerRequest<Answer>(request: WireRequest<Answer>, requestTimeoutMs: number): InnerRequest<Answer> {
  const { apiKey, apiVersion, apiName, waitMs = 0 } = request
  return {
    request: {
      apiKey,
      apiVersion,
      apiName,
      encode: async () => {
        const bytes = request.write(openWireWriter().tags()).tags().bytes()
        return { buf: bytes, buffer: bytes }
      },
    },
    response: {
      decode: async payload => {
        const reader = openWireReader(payload)
        reader.tags()
        const answer = request.read(reader)
        return Object.assign(answer, { clientSideThrottleTime: answer.throttleMs })
      },
      parse: async answer => answer,
    },
    requestTimeout: waitMs + requestTimeoutMs,
  }
}
