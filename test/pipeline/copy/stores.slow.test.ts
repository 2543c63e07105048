// Copies between stores on servers: PostgreSQL and MongoDB, both ways, and PostgreSQL elsewhere.

import { copyConformance } from '../../conformance/copy.ts'
import { describeWithMongo } from '../../servers/mongo.ts'
import { describeWithPostgres } from '../../servers/postgres.ts'
import { mongoStore, postgresStore } from './stores.ts'

describeWithPostgres('with a server of PostgreSQL', postgres => {
  describeWithMongo('and FerretDB', mongo => {
    copyConformance(
      'from PostgreSQL to MongoDB',
      () => postgresStore(postgres),
      () => mongoStore(mongo),
    )
    copyConformance(
      'from PostgreSQL to PostgreSQL',
      () => postgresStore(postgres),
      () => postgresStore(postgres),
    )
    copyConformance(
      'from MongoDB to PostgreSQL',
      () => mongoStore(mongo),
      () => postgresStore(postgres),
    )
  })
})
