// Makes properties try sizes up to their largest. By default fast-check generates lists of about ten elements, whatever `maxLength` says.

import { configureGlobal } from 'fast-check'

configureGlobal({ defaultSizeToMaxWhenMaxSpecified: true })
