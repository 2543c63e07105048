// What `@platformatic/kafka` throws, as a consumer takes it (consumer/broker.ts).

import { BrokerError } from '../consumer/broker.ts'
import { brokerCodes, reasonOf } from '../failure.ts'

/** The first thing that the broker said, where it said something. */
export function brokerFailure(error: unknown): unknown {
  const [apiCode] = brokerCodes(error)
  return apiCode === undefined ? error : new BrokerError(apiCode, reasonOf(error), { cause: error })
}
