// A request of our own as kafkajs's connections take it.

import { openWireReader, openWireWriter } from '../consumer/wire.ts'
import type { WireRequest } from '../consumer/wire-request.ts'
import type { InnerRequest } from './inner.ts'

/** What the broker may take longer than it was allowed to, before its answer is given up. */
const delayMs = 100

/** Its answer waits for as long as the broker says that it throttles us. */
export function innerRequest<Answer>(request: WireRequest<Answer>): InnerRequest<Answer> {
  const { apiKey, apiVersion, apiName, waitMs } = request
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
    ...(waitMs === undefined ? {} : { requestTimeout: waitMs + delayMs }),
  }
}
