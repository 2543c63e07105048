// The policy store in OpenFGA, from its options.

import type { Logger } from '../../../config/logger.ts'
import { factOf } from '../../../config/outage.ts'
import type { Database } from '../../../config/postgres/database.ts'
import { type OutsideRequests, openOutsideRequests } from '../../outside-requests.ts'
import type { PoliciesOptions } from '../options.ts'
import { openClient } from './client.ts'
import { type OpenFgaPolicies, openOpenFgaPolicies } from './store.ts'

/** All that is asked of it may be asked again. The preshared key is never in a log or an error. */
export function openOpenFgaRequests({ url, key, timeoutMs }: PoliciesOptions['openfga']): OutsideRequests {
  const headers: Record<string, string> = key === undefined ? {} : { authorization: `Bearer ${key}` }
  return openOutsideRequests({ name: 'OpenFGA', sentence: 'the policy store cannot be asked: try again', url, headers, timeoutMs })
}

export function openOpenFga(database: Database, options: PoliciesOptions['openfga'], logger: Logger): OpenFgaPolicies {
  const requests = openOpenFgaRequests(options)
  const policies = openOpenFgaPolicies({
    database,
    client: openClient(requests),
    onFailure: error =>
      logger.warn({ reason: factOf(error) }, 'policies that were not delivered wait for their store: they are tried again'),
  })
  return {
    ...policies,
    async close() {
      await policies.close()
      await requests.close()
    },
  }
}
