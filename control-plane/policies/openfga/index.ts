// The policy store in OpenFGA, from its options.

import type { Logger } from '../../../config/logger.ts'
import { factOf } from '../../../config/outage.ts'
import type { Database } from '../../../config/postgres/database.ts'
import type { PoliciesOptions } from '../options.ts'
import { openClient } from './client.ts'
import { openRequests } from './requests.ts'
import { type OpenFgaPolicies, openOpenFgaPolicies } from './store.ts'

export function openOpenFga(database: Database, options: PoliciesOptions['openfga'], logger: Logger): OpenFgaPolicies {
  const requests = openRequests(options)
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
